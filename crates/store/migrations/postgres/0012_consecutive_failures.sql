-- Failed runs of a job since its last run that succeeded. Counted from this version on.
ALTER TABLE states ADD COLUMN consecutive_failures BIGINT NOT NULL DEFAULT 0;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run. `enabled_since` is NULL if the job was never
-- disabled. `consecutive_failures` counts the failed runs since the last one that succeeded.
CREATE OR REPLACE VIEW v_jobs AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name,
    j.key AS id,
    encode(j.uid, 'hex') AS uid,
    CASE s.lifecycle WHEN 1 THEN 'Completed' WHEN 2 THEN 'Faulted'
        ELSE CASE WHEN s.enabled THEN 'Enabled' ELSE 'Disabled' END END AS state,
    CASE WHEN s.lifecycle = 0 AND s.enabled AND c.enabled THEN
        iso_time(s.due) END AS next_run,
    iso_time(s.last_execution) AS last_run,
    s.used AS occurrences,
    s.executions,
    s.failures,
    s.faulted,
    s.entries AS history_entries,
    iso_time(s.finished) AS finished,
    iso_time(j.created) AS created,
    s.generation,
    j.version,
    coalesce(s.schedule_generation, s.generation) AS schedule_generation,
    iso_time(s.enabled_since) AS enabled_since,
    s.consecutive_failures
FROM jobs j JOIN states s ON s.job = j.key
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;
