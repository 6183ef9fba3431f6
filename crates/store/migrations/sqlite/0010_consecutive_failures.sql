-- Failed runs of a job since its last run that succeeded. Counted from this version on.
ALTER TABLE state ADD COLUMN consecutive_failures INTEGER NOT NULL DEFAULT 0;

DROP VIEW v_jobs;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run. `enabled_since` is NULL if the job was never
-- disabled. `consecutive_failures` counts the failed runs since the last one that succeeded.
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
    j.version,
    coalesce(s.schedule_generation, s.generation) AS schedule_generation,
    strftime('%Y-%m-%dT%H:%M:%S', (s.enabled_since - 9999999 * (s.enabled_since < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.enabled_since % 10000000 + 10000000) % 10000000) AS enabled_since,
    s.consecutive_failures
FROM jobs j JOIN state s ON s.job = j.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;
