-- Static API tokens. Only hashes of their secrets are stored.
CREATE TABLE tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT NOT NULL,
    hash BYTEA NOT NULL,
    role SMALLINT NOT NULL,
    -- The access scope: path of a subscription, group or collection, or / for everything.
    place TEXT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    revoked BIGINT,
    last_used BIGINT
);
