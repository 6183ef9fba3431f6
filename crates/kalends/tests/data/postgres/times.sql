-- Every time that the nodes have stored, and the column that contains it.
SELECT 'v_jobs.created ' || created FROM v_jobs
UNION ALL SELECT 'v_jobs.last_run ' || last_run FROM v_jobs
UNION ALL SELECT 'v_jobs.finished ' || finished FROM v_jobs
UNION ALL SELECT 'v_jobs.enabled_since ' || enabled_since FROM v_jobs
UNION ALL SELECT 'v_collections.created ' || created FROM v_collections
UNION ALL SELECT 'v_runs.next_attempt ' || next_attempt FROM v_runs
UNION ALL SELECT 'v_runs.first_started ' || first_started FROM v_runs
UNION ALL SELECT 'v_runs.lease_until ' || lease_until FROM v_runs
UNION ALL SELECT 'v_history.started ' || started FROM v_history
UNION ALL SELECT 'v_history.ended ' || ended FROM v_history
UNION ALL SELECT 'v_ledger.closed ' || closed FROM v_ledger
UNION ALL SELECT 'v_pause.since ' || since FROM v_pause
UNION ALL SELECT 'v_notes.time ' || time FROM v_notes;
