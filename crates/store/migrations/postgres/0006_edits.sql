-- Open runs survive edits that do not change the schedule.

-- The generation of the last edit that changed the schedule: scheduled runs of earlier generations are
-- superseded. NULL in rows that an earlier version wrote, for which every edit changed the schedule.
ALTER TABLE states ADD COLUMN schedule_generation BIGINT;
-- When the job was last enabled; NULL if it was never disabled.
ALTER TABLE states ADD COLUMN enabled_since BIGINT;
-- The generation of the definition that the attempt used; NULL in entries of earlier versions.
ALTER TABLE history ADD COLUMN generation BIGINT;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run. `enabled_since` is NULL if the job was never
-- disabled.
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
    iso_time(s.enabled_since) AS enabled_since
FROM jobs j JOIN states s ON s.job = j.key
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;

-- Attempts. Durations are in microseconds; NULL if a phase did not occur. Messages are stored as JSON
-- strings; NUL, which is no text in PostgreSQL, appears as U+FFFD. `generation` is that of the
-- definition that the attempt used.
CREATE OR REPLACE VIEW v_history AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    h.sequence,
    iso_time(h.expected) AS scheduled,
    iso_time(h.started) AS started,
    iso_time(h.ended) AS ended,
    CASE h.status WHEN 0 THEN 'Completed' WHEN 1 THEN 'Failed' WHEN 2 THEN 'Postponed' END AS status,
    CASE h.role WHEN 0 THEN 'MainAction' WHEN 1 THEN 'ErrorAction' END AS action,
    h.retry,
    h.repeat AS occurrence,
    regexp_replace(h.message, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json #>> '{}' AS message,
    h.dns AS dns_us,
    h.connect AS connect_us,
    h.tls AS tls_us,
    h.first_byte AS first_byte_us,
    h.total AS total_us,
    h.generation
FROM history h JOIN jobs j ON j.key = h.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;
