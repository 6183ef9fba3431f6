-- Groups, collections, jobs, runs, history and the ledger.
--
-- Instants are ticks of 100 ns, durations likewise. Names are compared by their *_key columns, in
-- upper case; the columns beside them keep the spelling.
--
-- What the newest commits have changed of `state` and `runs` is in `log` and not yet there; see
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

-- A number is never used twice: jobs of a deleted collection may still be there.
CREATE TABLE collections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id INTEGER NOT NULL REFERENCES groups (id),
    name_key TEXT NOT NULL,
    name TEXT NOT NULL,
    plan INTEGER NOT NULL,
    enabled INTEGER NOT NULL,
    created INTEGER NOT NULL,
    -- What came due before is not run by itself.
    enabled_since INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- Counted as jobs come and go: counting them at every edit would take ever longer.
    jobs INTEGER NOT NULL,
    authenticated INTEGER NOT NULL,
    definition TEXT NOT NULL,
    UNIQUE (group_id, name_key)
) STRICT;

CREATE INDEX collections_disabled ON collections (id) WHERE enabled = 0;

-- What changes with edits only. Its collection is in `collections`, or in `doomed`.
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
    -- Of the job, so that those with a tag are found in the order of their names.
    collection INTEGER NOT NULL,
    job_key TEXT NOT NULL,
    PRIMARY KEY (job, name_key, value)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_name ON tags (collection, name_key, value, job_key);

-- What changes with every run: narrow, so that many jobs share a page.
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
    -- How many rows of history the job has, and the newest: each names the one before it.
    entries INTEGER NOT NULL,
    newest_entry INTEGER NOT NULL,
    -- The newest row of the ledger, likewise.
    newest_closing INTEGER NOT NULL
) STRICT;

-- The jobs whose schedule starts runs. Those that `log` has may be missing, or be here with a row of
-- before; see docs/decisions/0018.
CREATE TABLE due (
    due INTEGER NOT NULL,
    job INTEGER NOT NULL,
    -- The row of `state`, as it is written in the log.
    packed BLOB NOT NULL,
    PRIMARY KEY (due, job)
) STRICT, WITHOUT ROWID;

-- The jobs that are finished, as of the newest commit.
CREATE TABLE finished (
    finished INTEGER NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (finished, job)
) STRICT, WITHOUT ROWID;

-- Open runs. All of them are in memory while a process works with the store.
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
    -- Grows with every claim, also after the claim was given up.
    last_token INTEGER NOT NULL
) STRICT;

-- Appended to. The newest row of a job is named by its state, and each row names the one before it;
-- where that is not there any more, the job has no older ones.
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

-- Of so many rows of history (kind 0) or of the ledger (kind 1) that follow each other, an instant
-- before which none of them lies: what is removed by its age is found here.
CREATE TABLE spans (
    kind INTEGER NOT NULL,
    span INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    PRIMARY KEY (kind, span)
) STRICT, WITHOUT ROWID;

-- Deleted collections whose jobs are still being removed.
CREATE TABLE doomed (
    collection INTEGER PRIMARY KEY
) STRICT;

-- Deleted jobs whose history and ledger are still being removed.
CREATE TABLE leftovers (
    job INTEGER PRIMARY KEY,
    newest_entry INTEGER NOT NULL,
    newest_closing INTEGER NOT NULL
) STRICT;

-- What commits have changed of `state` and `runs`, until it is there. The last row always stays:
-- its number says how far a reader sees.
CREATE TABLE log (
    sequence INTEGER PRIMARY KEY,
    changes BLOB NOT NULL
) STRICT;
