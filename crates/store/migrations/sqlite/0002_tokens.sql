-- Static API tokens. Only hashes of their secrets are stored.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    role INTEGER NOT NULL,
    -- The access scope: path of a subscription, group or collection, or / for everything.
    place TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    last_used INTEGER
) STRICT, WITHOUT ROWID;
