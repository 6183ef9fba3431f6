-- Groups, collections, jobs, runs, history and the ledger.
--
-- Times and durations are in ticks of 100 ns; times count from 1970-01-01T00:00Z. A *_key column holds
-- a name in upper case, for comparison; the column beside it keeps the spelling.
--
-- Recent changes of `state` and `runs` are in the change log (`log`) until they are flushed; see
-- docs/decisions/0018.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
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

-- AUTOINCREMENT: ids are never reused, because jobs of a deleted collection may still exist.
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

-- Columns that only edits change. The collection is in `collections`, or in `doomed` after deletion.
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

-- Columns that every run changes. Narrow rows, so that many fit on a page.
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

-- Jobs by due time. Jobs in `log` may be missing here or have an outdated row; see docs/decisions/0018.
CREATE TABLE due (
    due INTEGER NOT NULL,
    job INTEGER NOT NULL,
    -- The row of `state`, in the format of the change log.
    packed BLOB NOT NULL,
    PRIMARY KEY (due, job)
) STRICT, WITHOUT ROWID;

-- Finished jobs by time, as of the newest commit.
CREATE TABLE finished (
    finished INTEGER NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (finished, job)
) STRICT, WITHOUT ROWID;

-- Open runs. A process that has the store open keeps all of them in memory.
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

-- Append-only. The state of a job refers to its newest row, and each row to its predecessor. A missing
-- predecessor ends the chain.
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
) STRICT;

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

-- The oldest time in each span of 512 consecutive rows of history (kind 0) or of the ledger (kind 1).
-- Retention finds expired rows with it.
CREATE TABLE spans (
    kind INTEGER NOT NULL,
    span INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    PRIMARY KEY (kind, span)
) STRICT, WITHOUT ROWID;

-- Deleted collections whose jobs are not yet removed.
CREATE TABLE doomed (
    collection INTEGER PRIMARY KEY
) STRICT;

-- Deleted jobs whose history and ledger rows are not yet removed.
CREATE TABLE leftovers (
    job INTEGER PRIMARY KEY,
    newest_entry INTEGER NOT NULL,
    newest_closing INTEGER NOT NULL
) STRICT;

-- The change log: changes of `state` and `runs` that are not yet flushed. The last row always stays:
-- its number tells readers which commits they see.
CREATE TABLE log (
    sequence INTEGER PRIMARY KEY,
    changes BLOB NOT NULL
) STRICT;
