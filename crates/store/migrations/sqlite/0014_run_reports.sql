-- Runs over all jobs: the attempts of each run, and counts of closed runs.

-- Start of the first attempt and end of the last one; number of attempts. NULL without an attempt, and in
-- rows of earlier versions.
ALTER TABLE ledger ADD COLUMN started INTEGER;
ALTER TABLE ledger ADD COLUMN ended INTEGER;
ALTER TABLE ledger ADD COLUMN attempts INTEGER;
-- Number of finished attempts, and the start of the first one.
ALTER TABLE runs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN started INTEGER;

-- Closed occurrences by the time at which they closed, in buckets of ten minutes that are numbered from
-- 1970. Collection 0 has those of all collections.
CREATE TABLE run_counts (
    bucket INTEGER NOT NULL,
    collection INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    PRIMARY KEY (bucket, collection)
) STRICT, WITHOUT ROWID;

DROP VIEW v_ledger;
DROP VIEW v_runs;

-- The ledger: occurrences from `first_scheduled` to `last_scheduled` with their disposition. `started`,
-- `ended` and `attempts` are NULL without an attempt.
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

-- Open runs. `owner` is the node that holds the claim; NULL if the run is not claimed. `attempt` counts
-- the attempts of the action, from 1; `finished_attempts` those of both actions. `waits_for` names the
-- limit that a run waits for.
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
