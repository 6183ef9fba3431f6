-- Open runs survive edits that do not change the schedule.

-- The generation of the last edit that changed the schedule: scheduled runs of earlier generations are
-- superseded. NULL in rows that an earlier version wrote, for which every edit changed the schedule.
ALTER TABLE state ADD COLUMN schedule_generation INTEGER;
-- When the job was last enabled; NULL if it was never disabled.
ALTER TABLE state ADD COLUMN enabled_since INTEGER;
-- Whether the run waits until its job is enabled.
ALTER TABLE runs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
-- The generation of the definition that the attempt used; NULL in entries of earlier versions.
ALTER TABLE history ADD COLUMN generation INTEGER;

DROP VIEW v_jobs;
DROP VIEW v_history;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run. `enabled_since` is NULL if the job was never
-- disabled.
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
        || printf('.%07dZ', (s.enabled_since % 10000000 + 10000000) % 10000000) AS enabled_since
FROM jobs j JOIN state s ON s.job = j.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;

-- Attempts. Durations are in microseconds; NULL if a phase did not occur. `generation` is that of the
-- definition that the attempt used.
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
    h.total AS total_us,
    h.generation
FROM history h JOIN jobs j ON j.job = h.job
    JOIN collections c ON c.id = j.collection
    JOIN groups g ON g.id = c.group_id;
