-- Read-only views for operators. Column names and values are the same in SQLite.
--
-- Times are ISO 8601 in UTC with seven fractional digits.

-- Adding days and the time of day separately avoids the rounding of large intervals.
CREATE FUNCTION iso_time(ticks BIGINT) RETURNS TEXT LANGUAGE sql STABLE STRICT AS $$
    SELECT to_char(
        DATE '1970-01-01'
            + ((ticks - CASE WHEN ticks < 0 THEN 863999999999 ELSE 0 END) / 864000000000)::INTEGER
            + ((ticks % 864000000000 + 864000000000) % 864000000000 / 10)
                * INTERVAL '1 microsecond',
        'YYYY-MM-DD"T"HH24:MI:SS.US') || (ticks % 10 + 10) % 10 || 'Z'
$$;

-- Collections with the number of their jobs.
CREATE VIEW v_collections AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    c.name,
    CASE c.plan WHEN 0 THEN 'Free' WHEN 1 THEN 'Standard'
        WHEN 2 THEN 'P10Premium' WHEN 3 THEN 'P20Premium' END AS plan,
    c.definition::json ->> 'state' AS state,
    c.jobs,
    iso_time(c.created) AS created,
    iso_time(c.enabled_since) AS enabled_since,
    c.version
FROM collections c JOIN groups g ON g.id = c.group_id;

-- Jobs without their definition. `next_run` is NULL if the job or its collection is not enabled.
-- `occurrences` counts the occurrences that started a run.
CREATE VIEW v_jobs AS SELECT
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
    j.version
FROM jobs j JOIN states s ON s.job = j.key
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;

-- Open runs. `owner` is the node that holds the claim; NULL if the run is not claimed. `attempt` counts
-- the attempts of the action, from 1.
CREATE VIEW v_runs AS SELECT
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
    r.generation
FROM runs r JOIN jobs j ON j.key = r.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;

-- Attempts. Durations are in microseconds; NULL if a phase did not occur. Messages are stored as JSON
-- strings; NUL, which is no text in PostgreSQL, appears as U+FFFD.
CREATE VIEW v_history AS SELECT
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
    h.total AS total_us
FROM history h JOIN jobs j ON j.key = h.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;

-- The ledger: occurrences from `first_scheduled` to `last_scheduled` with their disposition.
CREATE VIEW v_ledger AS SELECT
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
        WHEN 5 THEN 'Missed' WHEN 6 THEN 'Superseded' END AS disposition,
    iso_time(l.closed) AS closed,
    l.generation
FROM ledger l JOIN jobs j ON j.key = l.job
    JOIN collections c ON c.id = j.collection_id
    JOIN groups g ON g.id = c.group_id;
