-- Static tokens of the API. Of their secrets only hashes are kept.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    role INTEGER NOT NULL,
    -- The path of the subscription, group or collection that it holds in, or /.
    place TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    last_used INTEGER
) STRICT, WITHOUT ROWID;
