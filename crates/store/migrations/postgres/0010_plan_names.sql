-- Collections with the number of their jobs. The plan is that of the definition, whatever plans there are.
CREATE OR REPLACE VIEW v_collections AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    c.name,
    c.definition::json ->> 'plan' AS plan,
    c.definition::json ->> 'state' AS state,
    c.jobs,
    iso_time(c.created) AS created,
    iso_time(c.enabled_since) AS enabled_since,
    c.version
FROM collections c JOIN groups g ON g.id = c.group_id;
