-- Read-only views for operators. Column names and values are the same in PostgreSQL.
--
-- The views show the tables as of the last flush: recent changes of `state` and `runs` are only in the
-- change log (`log`), which SQL cannot decode. `kalends store dump` shows the present contents.
--
-- Times are ISO 8601 in UTC with seven fractional digits. Rows of deleted jobs that are not yet removed
-- do not appear.

-- Collections with the number of their jobs.
CREATE VIEW v_collections AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    c.name,
    CASE c.plan WHEN 0 THEN 'Free' WHEN 1 THEN 'Standard'
        WHEN 2 THEN 'P10Premium' WHEN 3 THEN 'P20Premium' END AS plan,
    json_extract(c.definition, '$.state') AS state,
    c.jobs,
    strftime('%Y-%m-%dT%H:%M:%S', (c.created - 9999999 * (c.created < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (c.created % 10000000 + 10000000) % 10000000) AS created,
    strftime('%Y-%m-%dT%H:%M:%S', (c.enabled_since - 9999999 * (c.enabled_since < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (c.enabled_since % 10000000 + 10000000) % 10000000) AS enabled_since,
    c.version
FROM collections c JOIN groups g ON g.id = c.group_id;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run.
CREATE VIEW v_jobs AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name,
    j.job AS id,
    lower(hex(j.uid)) AS uid,
    CASE s.lifecycle WHEN 1 THEN 'Completed' WHEN 2 THEN 'Faulted'
        ELSE CASE WHEN s.switched_on = 1 THEN 'Enabled' ELSE 'Disabled' END END AS state,
    CASE WHEN s.lifecycle = 0 AND s.switched_on = 1 AND c.enabled = 1 THEN
        strftime('%Y-%m-%dT%H:%M:%S', (s.due - 9999999 * (s.due < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.due % 10000000 + 10000000) % 10000000) END AS next_run,
    strftime('%Y-%m-%dT%H:%M:%S', (s.last_execution - 9999999 * (s.last_execution < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.last_execution % 10000000 + 10000000) % 10000000) AS last_run,
    s.used AS occurrences,
    s.executions,
    s.failures,
    s.faulted,
    s.entries AS history_entries,
    strftime('%Y-%m-%dT%H:%M:%S', (s.finished - 9999999 * (s.finished < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.finished % 10000000 + 10000000) % 10000000) AS finished,
    strftime('%Y-%m-%dT%H:%M:%S', (j.created - 9999999 * (j.created < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (j.created % 10000000 + 10000000) % 10000000) AS created,
    s.generation,
    j.version
FROM jobs j JOIN state s ON s.job = j.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

-- Open runs. `owner` is the node that holds the claim; NULL if the run is not claimed. `attempt` counts
-- the attempts of the action, from 1.
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
    r.generation
FROM runs r JOIN jobs j ON j.job = r.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

-- Attempts. Durations are in microseconds; NULL if a phase did not occur.
CREATE VIEW v_history AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    h.sequence,
    strftime('%Y-%m-%dT%H:%M:%S', (h.expected - 9999999 * (h.expected < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (h.expected % 10000000 + 10000000) % 10000000) AS scheduled,
    strftime('%Y-%m-%dT%H:%M:%S', (h.started - 9999999 * (h.started < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (h.started % 10000000 + 10000000) % 10000000) AS started,
    strftime('%Y-%m-%dT%H:%M:%S', (h.ended - 9999999 * (h.ended < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (h.ended % 10000000 + 10000000) % 10000000) AS ended,
    CASE h.status WHEN 0 THEN 'Completed' WHEN 1 THEN 'Failed' WHEN 2 THEN 'Postponed' END AS status,
    CASE h.role WHEN 0 THEN 'MainAction' WHEN 1 THEN 'ErrorAction' END AS action,
    h.retry,
    h.repeat AS occurrence,
    h.message,
    h.dns AS dns_us,
    h.connect AS connect_us,
    h.tls AS tls_us,
    h.first_byte AS first_byte_us,
    h.total AS total_us
FROM history h JOIN jobs j ON j.job = h.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

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
        WHEN 5 THEN 'Missed' WHEN 6 THEN 'Superseded' END AS disposition,
    strftime('%Y-%m-%dT%H:%M:%S', (l.closed - 9999999 * (l.closed < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.closed % 10000000 + 10000000) % 10000000) AS closed,
    l.generation
FROM ledger l JOIN jobs j ON j.job = l.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;
