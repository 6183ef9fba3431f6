-- The pause of all jobs.

-- The newest pause, at most one row. Times are ticks of 100 ns since 1970.
CREATE TABLE pause (
    id SMALLINT PRIMARY KEY CHECK (id = 1),
    since BIGINT NOT NULL,
    -- Time at which it ends by itself; NULL if only a request ends it or one has ended it.
    until BIGINT,
    -- Time at which a request ended it.
    resumed BIGINT,
    reason TEXT NOT NULL,
    -- The caller who paused last.
    author TEXT NOT NULL
);

-- The newest pause, also one that has ended.
CREATE VIEW v_pause AS SELECT
    iso_time(since) AS since,
    iso_time(until) AS until,
    iso_time(resumed) AS resumed,
    reason,
    author
FROM pause;

-- The ledger: occurrences from `first_scheduled` to `last_scheduled` with their disposition.
CREATE OR REPLACE VIEW v_ledger AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    l.number,
    iso_time(l.first_at) AS first_scheduled,
    iso_time(l.last_at) AS last_scheduled,
    l.count,
    CASE l.cause WHEN 0 THEN 'Scheduled' WHEN 1 THEN 'Manual' END AS cause,
    CASE l.disposition WHEN 0 THEN 'Completed' WHEN 1 THEN 'Failed'
        WHEN 2 THEN 'SkippedOverlap' WHEN 3 THEN 'SkippedDisabled' WHEN 4 THEN 'SkippedQuota'
        WHEN 5 THEN 'Missed' WHEN 6 THEN 'Superseded'
        WHEN 7 THEN 'SkippedPaused' END AS disposition,
    iso_time(l.closed) AS closed,
    l.generation
FROM ledger l JOIN jobs j ON j.key = l.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;
