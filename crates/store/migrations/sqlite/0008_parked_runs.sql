-- Runs that are due and wait for a free slot.

-- The host or collection that has no free slot: a hash, whose lowest bit is 1 for a collection. NULL if
-- the run is not parked.
ALTER TABLE runs ADD COLUMN waits_for INTEGER;

DROP VIEW v_runs;

-- Open runs. `owner` is the node that holds the claim; NULL if the run is not claimed. `attempt` counts
-- the attempts of the action, from 1. `waits_for` names the limit that a run waits for.
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
    CASE r.waits_for & 1 WHEN 0 THEN 'Host' WHEN 1 THEN 'Collection' END AS waits_for
FROM runs r JOIN jobs j ON j.job = r.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;
