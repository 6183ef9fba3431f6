-- Whether a collection is enabled is read from its row, so that switching it changes no row of its jobs.
-- The search for due jobs visits enabled collections only.
ALTER TABLE states DROP COLUMN collection_enabled;
CREATE INDEX states_due ON states (collection_id, due, job)
    WHERE due IS NOT NULL AND lifecycle = 0 AND enabled;

-- A lower bound of the due times of the active, enabled jobs of a collection: the search begins there
-- and does not read entries of past occurrences that are not vacuumed yet. No row: no bound.
CREATE TABLE due_floors (
    collection_id BIGINT PRIMARY KEY,
    due BIGINT NOT NULL
) WITH (fillfactor = 50);

-- Deferred deletion. The jobs of a deleted collection, and the history and ledger of a deleted job, are
-- unreachable and removed in short transactions.
ALTER TABLE jobs DROP CONSTRAINT jobs_collection_id_fkey;
CREATE TABLE doomed (
    collection_id BIGINT PRIMARY KEY
);
CREATE TABLE leftovers (
    job BIGINT PRIMARY KEY
);

-- The few rows of several occurrences, which may begin before a requested span and reach into it.
CREATE INDEX ledger_ranges ON ledger (job, last_at) WHERE first_at < last_at;

-- Every run changes these tables: vacuum after a number of changes and not after a share of the table.
ALTER TABLE states SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE due_floors SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
