-- Occurrences that users request to skip: those up to this time that have not begun; NULL if none.
ALTER TABLE states ADD COLUMN skip_until BIGINT;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run. `enabled_since` is NULL if the job was never
-- disabled. `consecutive_failures` counts the failed runs since the last one that succeeded.
-- Occurrences up to `skip_until` are skipped by request, also that of `next_run`.
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
    s.consecutive_failures,
    iso_time(s.skip_until) AS skip_until
FROM jobs j JOIN states s ON s.job = j.key
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;

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
        WHEN 7 THEN 'SkippedPaused'
        WHEN 8 THEN 'SkippedByRequest' END AS disposition,
    iso_time(l.closed) AS closed,
    l.generation
FROM ledger l JOIN jobs j ON j.key = l.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;
