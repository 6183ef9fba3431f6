-- The tables that runs and GET need, with the columns of the store. Every index ends with the
-- INTEGER PRIMARY KEY of its table, which SQLite appends.

CREATE TABLE jobs (
    job INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    name_key TEXT NOT NULL,
    name TEXT NOT NULL,
    uid BLOB NOT NULL,
    created INTEGER NOT NULL,
    version INTEGER NOT NULL,
    definition TEXT NOT NULL,
    UNIQUE (collection, name_key)
) STRICT;

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
    entries INTEGER NOT NULL,
    newest_entry INTEGER NOT NULL,
    newest_closing INTEGER NOT NULL
) STRICT;

CREATE INDEX state_by_due ON state (due) WHERE switched_on = 1 AND lifecycle = 0;

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
    owner INTEGER,
    token INTEGER,
    lease_until INTEGER,
    last_token INTEGER NOT NULL
) STRICT;

CREATE INDEX runs_by_job ON runs (job);

-- Claimable runs: unclaimed ones by their next attempt, claimed ones by the end of their lease.
CREATE INDEX runs_unclaimed ON runs (next_at) WHERE token IS NULL;
CREATE INDEX runs_claimed ON runs (lease_until) WHERE token IS NOT NULL;

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
    message TEXT NOT NULL,
    dns INTEGER,
    connect INTEGER,
    tls INTEGER,
    first_byte INTEGER,
    total INTEGER
) STRICT;

CREATE INDEX history_by_job ON history (job);

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

CREATE INDEX ledger_by_job ON ledger (job);
