SELECT created FROM v_jobs UNION ALL SELECT created FROM v_collections;
