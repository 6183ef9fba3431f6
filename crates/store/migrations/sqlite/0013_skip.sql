-- Occurrences that users request to skip: those up to this time that have not begun; NULL if none.
ALTER TABLE state ADD COLUMN skip_until INTEGER;

DROP VIEW v_jobs;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run. `enabled_since` is NULL if the job was never
-- disabled. `consecutive_failures` counts the failed runs since the last one that succeeded.
-- Occurrences up to `skip_until` are skipped by request, also that of `next_run`.
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
    s.consecutive_failures,
    strftime('%Y-%m-%dT%H:%M:%S', (s.skip_until - 9999999 * (s.skip_until < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (s.skip_until % 10000000 + 10000000) % 10000000) AS skip_until
FROM jobs j JOIN state s ON s.job = j.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

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
        WHEN 7 THEN 'SkippedPaused'
        WHEN 8 THEN 'SkippedByRequest' END AS disposition,
    strftime('%Y-%m-%dT%H:%M:%S', (l.closed - 9999999 * (l.closed < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (l.closed % 10000000 + 10000000) % 10000000) AS closed,
    l.generation
FROM ledger l JOIN jobs j ON j.job = l.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;
