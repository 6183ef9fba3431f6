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
, dns INTEGER, connect INTEGER, tls INTEGER, first_byte INTEGER, total INTEGER) STRICT;

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
) STRICT;

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
) STRICT;

CREATE TABLE spans (
    kind INTEGER NOT NULL,
    span INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
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
) STRICT;

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
