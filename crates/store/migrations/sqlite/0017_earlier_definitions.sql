-- Definitions of jobs that edits replaced, so that runs can be explained afterwards.

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
