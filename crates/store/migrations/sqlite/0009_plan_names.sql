-- Collections with the number of their jobs. The plan is that of the definition, whatever plans there are.
DROP VIEW v_collections;
CREATE VIEW v_collections AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    c.name,
    json_extract(c.definition, '$.plan') AS plan,
    json_extract(c.definition, '$.state') AS state,
    c.jobs,
    strftime('%Y-%m-%dT%H:%M:%S', (c.created - 9999999 * (c.created < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (c.created % 10000000 + 10000000) % 10000000) AS created,
    strftime('%Y-%m-%dT%H:%M:%S', (c.enabled_since - 9999999 * (c.enabled_since < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (c.enabled_since % 10000000 + 10000000) % 10000000) AS enabled_since,
    c.version
FROM collections c JOIN groups g ON g.id = c.group_id;
