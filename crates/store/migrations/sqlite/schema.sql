-- Generated from the migrations; a test compares it.

CREATE TABLE collections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id INTEGER NOT NULL REFERENCES groups (id),
    name_key TEXT NOT NULL,
    name TEXT NOT NULL,
    plan INTEGER NOT NULL,
    enabled INTEGER NOT NULL,
    created INTEGER NOT NULL,
    -- Occurrences that came due earlier do not run.
    enabled_since INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- Maintained with every edit: counting the jobs each time would be too slow.
    jobs INTEGER NOT NULL,
    authenticated INTEGER NOT NULL,
    definition TEXT NOT NULL,
    UNIQUE (group_id, name_key)
) STRICT;

CREATE INDEX collections_disabled ON collections (id) WHERE enabled = 0;

CREATE TABLE doomed (
    collection INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE due (
    due INTEGER NOT NULL,
    job INTEGER NOT NULL,
    -- The row of `state`, in the format of the change log.
    packed BLOB NOT NULL,
    PRIMARY KEY (due, job)
) STRICT, WITHOUT ROWID;

CREATE TABLE earlier_definitions (
    number INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    -- Ticks of 100 ns since 1970.
    replaced INTEGER NOT NULL,
    -- The form of `jobs.definition`.
    definition TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX earlier_definitions_by_job ON earlier_definitions (job, generation);

CREATE INDEX earlier_definitions_by_time ON earlier_definitions (replaced);

CREATE TABLE finished (
    finished INTEGER NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (finished, job)
) STRICT, WITHOUT ROWID;

CREATE TABLE groups (
    id INTEGER PRIMARY KEY,
    subscription_key TEXT NOT NULL,
    name_key TEXT NOT NULL,
    subscription TEXT NOT NULL,
    name TEXT NOT NULL,
    location TEXT,
    tags TEXT NOT NULL,
    UNIQUE (subscription_key, name_key)
) STRICT;

CREATE TABLE history (
    sequence INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    expected INTEGER NOT NULL,
    status INTEGER NOT NULL,
    retry INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    role INTEGER NOT NULL,
    message TEXT NOT NULL
, dns INTEGER, connect INTEGER, tls INTEGER, first_byte INTEGER, total INTEGER, generation INTEGER) STRICT;

CREATE TABLE jobs (
    job INTEGER PRIMARY KEY AUTOINCREMENT,
    collection INTEGER NOT NULL,
    name_key TEXT NOT NULL,
    name TEXT NOT NULL,
    uid BLOB NOT NULL,
    created INTEGER NOT NULL,
    version INTEGER NOT NULL,
    shortest_gap INTEGER,
    shortest_retry INTEGER,
    authenticated INTEGER NOT NULL,
    search TEXT NOT NULL,
    definition TEXT NOT NULL,
    UNIQUE (collection, name_key)
) STRICT;

CREATE INDEX jobs_by_gap ON jobs (collection, shortest_gap) WHERE shortest_gap IS NOT NULL;

CREATE INDEX jobs_by_retry ON jobs (collection, shortest_retry) WHERE shortest_retry IS NOT NULL;

CREATE TABLE ledger (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER NOT NULL,
    count INTEGER NOT NULL,
    cause INTEGER NOT NULL,
    disposition INTEGER NOT NULL,
    closed INTEGER NOT NULL
, started INTEGER, ended INTEGER, attempts INTEGER) STRICT;

CREATE TABLE leftovers (
    job INTEGER PRIMARY KEY,
    newest_entry INTEGER NOT NULL,
    newest_closing INTEGER NOT NULL
) STRICT;

CREATE TABLE log (
    sequence INTEGER PRIMARY KEY,
    changes BLOB NOT NULL
) STRICT;

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notes (
    number INTEGER PRIMARY KEY,
    -- Ticks of 100 ns since 1970.
    time INTEGER NOT NULL,
    action INTEGER NOT NULL,
    -- 0: the note is about all jobs.
    collection INTEGER NOT NULL,
    -- 0: the note is about the collection itself, or about all jobs.
    job INTEGER NOT NULL,
    -- Id and display name of the caller.
    author TEXT NOT NULL,
    author_name TEXT,
    text TEXT NOT NULL
) STRICT;

CREATE INDEX notes_by_subject ON notes (job, collection, number);

CREATE INDEX notes_by_time ON notes (time);

CREATE TABLE pause (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    since INTEGER NOT NULL,
    -- Time at which it ends by itself; NULL if only a request ends it or one has ended it.
    until INTEGER,
    -- Time at which a request ended it.
    resumed INTEGER,
    reason TEXT NOT NULL,
    -- The caller who paused last.
    author TEXT NOT NULL
);

CREATE TABLE run_counts (
    bucket INTEGER NOT NULL,
    collection INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    PRIMARY KEY (bucket, collection)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    collection INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    scheduled INTEGER NOT NULL,
    cause INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    role INTEGER NOT NULL,
    retry INTEGER NOT NULL,
    redelivery INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    first_started INTEGER,
    -- The claim: all three or none.
    owner INTEGER,
    token INTEGER,
    lease_until INTEGER,
    -- The last fencing token. Increases with every claim, also after a release.
    last_token INTEGER NOT NULL
, held INTEGER NOT NULL DEFAULT 0, waits_for INTEGER, attempts INTEGER NOT NULL DEFAULT 0, started INTEGER) STRICT;

CREATE TABLE sessions (
    hash BLOB PRIMARY KEY,
    -- start-token, token: and the id of a token, or oidc: and a subject.
    identity TEXT NOT NULL,
    -- Of start-token: hash of the session id and the token.
    proof BLOB,
    -- Of oidc: display name, and a line with role and scope for each grant.
    name TEXT,
    grants TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_expiry ON sessions (expires);

CREATE INDEX sessions_by_identity ON sessions (identity, created);

CREATE TABLE spans (
    kind INTEGER NOT NULL,
    span INTEGER NOT NULL,
    oldest INTEGER NOT NULL, latest INTEGER,
    PRIMARY KEY (kind, span)
) STRICT, WITHOUT ROWID;

CREATE TABLE state (
    job INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    switched_on INTEGER NOT NULL,
    lifecycle INTEGER NOT NULL,
    due INTEGER,
    used INTEGER NOT NULL,
    last_execution INTEGER,
    executions INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    faulted INTEGER NOT NULL,
    finished INTEGER,
    -- The number of history rows of the job, and the newest; each row refers to its predecessor.
    entries INTEGER NOT NULL,
    newest_entry INTEGER NOT NULL,
    -- The newest ledger row; each row refers to its predecessor.
    newest_closing INTEGER NOT NULL
, schedule_generation INTEGER, enabled_since INTEGER, consecutive_failures INTEGER NOT NULL DEFAULT 0, skip_until INTEGER) STRICT;

CREATE INDEX state_disabled ON state (job) WHERE switched_on = 0;

CREATE INDEX state_failing ON state (job) WHERE consecutive_failures >= 3;

CREATE TABLE tags (
    job INTEGER NOT NULL,
    name_key TEXT NOT NULL,
    value TEXT NOT NULL,
    -- Copied from the job, so that the index returns jobs with a tag in name order.
    collection INTEGER NOT NULL,
    job_key TEXT NOT NULL,
    PRIMARY KEY (job, name_key, value)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_name ON tags (collection, name_key, value, job_key);

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    role INTEGER NOT NULL,
    -- The access scope: path of a subscription, group or collection, or / for everything.
    place TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    last_used INTEGER
) STRICT, WITHOUT ROWID;

CREATE VIEW v_collections AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    c.name,
    json_extract(c.definition, '$.plan') AS plan,
    json_extract(c.definition, '$.state') AS state,
    c.jobs,
    strftime('%Y-%m-%dT%H:%M:%S', (c.created - 9999999 * (c.created < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (c.created % 10000000 + 10000000) % 10000000) AS created,
    strftime('%Y-%m-%dT%H:%M:%S', (c.enabled_since - 9999999 * (c.enabled_since < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (c.enabled_since % 10000000 + 10000000) % 10000000) AS enabled_since,
    c.version
FROM collections c JOIN groups g ON g.id = c.group_id;

CREATE VIEW v_history AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    h.sequence,
    strftime('%Y-%m-%dT%H:%M:%S', (h.expected - 9999999 * (h.expected < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (h.expected % 10000000 + 10000000) % 10000000) AS scheduled,
    strftime('%Y-%m-%dT%H:%M:%S', (h.started - 9999999 * (h.started < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (h.started % 10000000 + 10000000) % 10000000) AS started,
    strftime('%Y-%m-%dT%H:%M:%S', (h.ended - 9999999 * (h.ended < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (h.ended % 10000000 + 10000000) % 10000000) AS ended,
    CASE h.status WHEN 0 THEN 'Completed' WHEN 1 THEN 'Failed' WHEN 2 THEN 'Postponed' END AS status,
    CASE h.role WHEN 0 THEN 'MainAction' WHEN 1 THEN 'ErrorAction' END AS action,
    h.retry,
    h.repeat AS occurrence,
    h.message,
    h.dns AS dns_us,
    h.connect AS connect_us,
    h.tls AS tls_us,
    h.first_byte AS first_byte_us,
    h.total AS total_us,
    h.generation
FROM history h JOIN jobs j ON j.job = h.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

CREATE VIEW v_jobs AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name,
    j.job AS id,
    lower(hex(j.uid)) AS uid,
    CASE s.lifecycle WHEN 1 THEN 'Completed' WHEN 2 THEN 'Faulted'
        ELSE CASE WHEN s.switched_on = 1 THEN 'Enabled' ELSE 'Disabled' END END AS state,
    CASE WHEN s.lifecycle = 0 AND s.switched_on = 1 AND c.enabled = 1 THEN
        strftime('%Y-%m-%dT%H:%M:%S', (s.due - 9999999 * (s.due < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.due % 10000000 + 10000000) % 10000000) END AS next_run,
    strftime('%Y-%m-%dT%H:%M:%S', (s.last_execution - 9999999 * (s.last_execution < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.last_execution % 10000000 + 10000000) % 10000000) AS last_run,
    s.used AS occurrences,
    s.executions,
    s.failures,
    s.faulted,
    s.entries AS history_entries,
    strftime('%Y-%m-%dT%H:%M:%S', (s.finished - 9999999 * (s.finished < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.finished % 10000000 + 10000000) % 10000000) AS finished,
    strftime('%Y-%m-%dT%H:%M:%S', (j.created - 9999999 * (j.created < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (j.created % 10000000 + 10000000) % 10000000) AS created,
    s.generation,
    j.version,
    coalesce(s.schedule_generation, s.generation) AS schedule_generation,
    strftime('%Y-%m-%dT%H:%M:%S', (s.enabled_since - 9999999 * (s.enabled_since < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.enabled_since % 10000000 + 10000000) % 10000000) AS enabled_since,
    s.consecutive_failures,
    strftime('%Y-%m-%dT%H:%M:%S', (s.skip_until - 9999999 * (s.skip_until < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.skip_until % 10000000 + 10000000) % 10000000) AS skip_until
FROM jobs j JOIN state s ON s.job = j.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

CREATE VIEW v_ledger AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    l.id AS number,
    strftime('%Y-%m-%dT%H:%M:%S', (l.from_at - 9999999 * (l.from_at < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.from_at % 10000000 + 10000000) % 10000000) AS first_scheduled,
    strftime('%Y-%m-%dT%H:%M:%S', (l.to_at - 9999999 * (l.to_at < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.to_at % 10000000 + 10000000) % 10000000) AS last_scheduled,
    l.count,
    CASE l.cause WHEN 0 THEN 'Scheduled' WHEN 1 THEN 'Manual' END AS cause,
    CASE l.disposition WHEN 0 THEN 'Completed' WHEN 1 THEN 'Failed'
        WHEN 2 THEN 'SkippedOverlap' WHEN 3 THEN 'SkippedDisabled' WHEN 4 THEN 'SkippedQuota'
        WHEN 5 THEN 'Missed' WHEN 6 THEN 'Superseded'
        WHEN 7 THEN 'SkippedPaused'
        WHEN 8 THEN 'SkippedByRequest' END AS disposition,
    strftime('%Y-%m-%dT%H:%M:%S', (l.closed - 9999999 * (l.closed < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.closed % 10000000 + 10000000) % 10000000) AS closed,
    l.generation,
    strftime('%Y-%m-%dT%H:%M:%S', (l.started - 9999999 * (l.started < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.started % 10000000 + 10000000) % 10000000) AS started,
    strftime('%Y-%m-%dT%H:%M:%S', (l.ended - 9999999 * (l.ended < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.ended % 10000000 + 10000000) % 10000000) AS ended,
    l.attempts
FROM ledger l JOIN jobs j ON j.job = l.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

CREATE VIEW v_notes AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    n.number,
    strftime('%Y-%m-%dT%H:%M:%S', (n.time - 9999999 * (n.time < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (n.time % 10000000 + 10000000) % 10000000) AS time,
    CASE n.action WHEN 0 THEN 'Created' WHEN 1 THEN 'Edited' WHEN 2 THEN 'Enabled'
        WHEN 3 THEN 'Disabled' WHEN 4 THEN 'Ran' WHEN 5 THEN 'Skipped' WHEN 6 THEN 'Paused'
        WHEN 7 THEN 'Resumed' WHEN 8 THEN 'Noted' END AS action,
    n.author,
    n.author_name,
    n.text
FROM notes n LEFT JOIN jobs j ON j.job = n.job
    LEFT JOIN collections c ON c.id = n.collection
    LEFT JOIN groups g ON g.id = c.group_id
WHERE (n.job = 0 OR j.job IS NOT NULL) AND (n.collection = 0 OR c.id IS NOT NULL);

CREATE VIEW v_pause AS SELECT
    strftime('%Y-%m-%dT%H:%M:%S', (since - 9999999 * (since < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (since % 10000000 + 10000000) % 10000000) AS since,
    strftime('%Y-%m-%dT%H:%M:%S', (until - 9999999 * (until < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (until % 10000000 + 10000000) % 10000000) AS until,
    strftime('%Y-%m-%dT%H:%M:%S', (resumed - 9999999 * (resumed < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (resumed % 10000000 + 10000000) % 10000000) AS resumed,
    reason,
    author
FROM pause;

CREATE VIEW v_runs AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    r.run,
    strftime('%Y-%m-%dT%H:%M:%S', (r.scheduled - 9999999 * (r.scheduled < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (r.scheduled % 10000000 + 10000000) % 10000000) AS scheduled,
    CASE r.cause WHEN 0 THEN 'Scheduled' WHEN 1 THEN 'Manual' END AS cause,
    r.repeat AS occurrence,
    CASE r.role WHEN 0 THEN 'MainAction' WHEN 1 THEN 'ErrorAction' END AS action,
    r.retry + 1 AS attempt,
    r.redelivery,
    strftime('%Y-%m-%dT%H:%M:%S', (r.next_at - 9999999 * (r.next_at < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (r.next_at % 10000000 + 10000000) % 10000000) AS next_attempt,
    strftime('%Y-%m-%dT%H:%M:%S', (r.first_started - 9999999 * (r.first_started < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (r.first_started % 10000000 + 10000000) % 10000000) AS first_started,
    CASE WHEN r.owner IS NOT NULL THEN printf('%016x', r.owner) END AS owner,
    r.token AS fencing_token,
    strftime('%Y-%m-%dT%H:%M:%S', (r.lease_until - 9999999 * (r.lease_until < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (r.lease_until % 10000000 + 10000000) % 10000000) AS lease_until,
    r.generation,
    CASE r.waits_for & 1 WHEN 0 THEN 'Host' WHEN 1 THEN 'Collection' END AS waits_for,
    r.attempts AS finished_attempts
FROM runs r JOIN jobs j ON j.job = r.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;
