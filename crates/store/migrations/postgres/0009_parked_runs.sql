-- Runs that are due and wait for a free slot.

-- The host or collection that has no free slot: a hash, whose lowest bit is 1 for a collection. NULL if
-- the run is not parked.
ALTER TABLE runs
    ADD COLUMN waits_for BIGINT,
    ADD CONSTRAINT runs_parked_unclaimed CHECK (owner IS NULL OR waits_for IS NULL);

DROP INDEX runs_waiting;
CREATE INDEX runs_waiting ON runs (next_at, id) WHERE owner IS NULL AND waits_for IS NULL;
CREATE INDEX runs_parked ON runs (waits_for, next_at, id) WHERE waits_for IS NOT NULL;

-- Open runs. `owner` is the node that holds the claim; NULL if the run is not claimed. `attempt` counts
-- the attempts of the action, from 1. `waits_for` names the limit that a run waits for.
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
    CASE r.waits_for & 1 WHEN 0 THEN 'Host' WHEN 1 THEN 'Collection' END AS waits_for
FROM runs r JOIN jobs j ON j.key = r.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;
