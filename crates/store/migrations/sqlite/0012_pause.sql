-- The pause of all jobs.

-- The newest pause, at most one row. Times are ticks of 100 ns since 1970.
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

-- The newest pause, also one that has ended.
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

DROP VIEW v_ledger;

-- The ledger: occurrences from `first_scheduled` to `last_scheduled` with their disposition.
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
        WHEN 7 THEN 'SkippedPaused' END AS disposition,
    strftime('%Y-%m-%dT%H:%M:%S', (l.closed - 9999999 * (l.closed < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.closed % 10000000 + 10000000) % 10000000) AS closed,
    l.generation
FROM ledger l JOIN jobs j ON j.job = l.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;
