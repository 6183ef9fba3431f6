-- Runs over all jobs: the attempts of each run, and counts of closed runs.

-- Start of the first attempt and end of the last one; number of attempts. NULL without an attempt, and in
-- rows of earlier versions.
ALTER TABLE ledger
    ADD COLUMN started BIGINT,
    ADD COLUMN ended BIGINT,
    ADD COLUMN attempts INTEGER;
-- Number of finished attempts, and the start of the first one.
ALTER TABLE runs
    ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN started BIGINT;

-- Closed occurrences by the time at which they closed, in buckets of ten minutes that are numbered from
-- 1970. Collection 0 has those of all collections. Each session adds to rows of its own as far as
-- possible, so that commits do not wait for each other.
CREATE TABLE run_counts (
    bucket BIGINT NOT NULL,
    collection_id BIGINT NOT NULL,
    session SMALLINT NOT NULL,
    succeeded BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    PRIMARY KEY (bucket, collection_id, session)
);

-- The ledger: occurrences from `first_scheduled` to `last_scheduled` with their disposition. `started`,
-- `ended` and `attempts` are NULL without an attempt.
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
        WHEN 7 THEN 'SkippedPaused'
        WHEN 8 THEN 'SkippedByRequest' END AS disposition,
    iso_time(l.closed) AS closed,
    l.generation,
    iso_time(l.started) AS started,
    iso_time(l.ended) AS ended,
    l.attempts
FROM ledger l JOIN jobs j ON j.key = l.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;

-- Open runs. `owner` is the node that holds the claim; NULL if the run is not claimed. `attempt` counts
-- the attempts of the action, from 1; `finished_attempts` those of both actions. `waits_for` names the
-- limit that a run waits for.
CREATE OR REPLACE VIEW v_runs AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    r.id AS run,
    iso_time(r.scheduled) AS scheduled,
    CASE r.cause WHEN 0 THEN 'Scheduled' WHEN 1 THEN 'Manual' END AS cause,
    r.repeat AS occurrence,
    CASE r.role WHEN 0 THEN 'MainAction' WHEN 1 THEN 'ErrorAction' END AS action,
    r.retry + 1 AS attempt,
    r.redelivery,
    iso_time(r.next_at) AS next_attempt,
    iso_time(r.first_started) AS first_started,
    lpad(to_hex(r.owner), 16, '0') AS owner,
    r.token AS fencing_token,
    iso_time(r.lease_until) AS lease_until,
    r.generation,
    CASE r.waits_for & 1 WHEN 0 THEN 'Host' WHEN 1 THEN 'Collection' END AS waits_for,
    r.attempts AS finished_attempts
FROM runs r JOIN jobs j ON j.key = r.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;
