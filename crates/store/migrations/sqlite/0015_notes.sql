-- Notes that callers give with actions.

CREATE TABLE notes (
    number INTEGER PRIMARY KEY,
    -- Ticks of 100 ns since 1970.
    time INTEGER NOT NULL,
    action INTEGER NOT NULL,
    -- 0: the note is about all jobs.
    collection INTEGER NOT NULL,
    -- 0: the note is about the collection itself, or about all jobs.
    job INTEGER NOT NULL,
    -- Id and display name of the caller.
    author TEXT NOT NULL,
    author_name TEXT,
    text TEXT NOT NULL
) STRICT;

CREATE INDEX notes_by_subject ON notes (job, collection, number);

CREATE INDEX notes_by_time ON notes (time);

-- Notes, also of collections (`job` is NULL) and of all jobs (`collection` is NULL).
CREATE VIEW v_notes AS SELECT
    '/subscriptions/' || g.subscription || '/resourceGroups/' || g.name
        || '/providers/Microsoft.Scheduler/jobCollections/' || c.name AS collection,
    j.name AS job,
    n.number,
    strftime('%Y-%m-%dT%H:%M:%S', (n.time - 9999999 * (n.time < 0)) / 10000000,
        'unixepoch')
        || printf('.%07dZ', (n.time % 10000000 + 10000000) % 10000000) AS time,
    CASE n.action WHEN 0 THEN 'Created' WHEN 1 THEN 'Edited' WHEN 2 THEN 'Enabled'
        WHEN 3 THEN 'Disabled' WHEN 4 THEN 'Ran' WHEN 5 THEN 'Skipped' WHEN 6 THEN 'Paused'
        WHEN 7 THEN 'Resumed' WHEN 8 THEN 'Noted' END AS action,
    n.author,
    n.author_name,
    n.text
FROM notes n LEFT JOIN jobs j ON j.job = n.job
    LEFT JOIN collections c ON c.id = n.collection
    LEFT JOIN groups g ON g.id = c.group_id
WHERE (n.job = 0 OR j.job IS NOT NULL) AND (n.collection = 0 OR c.id IS NOT NULL);
