-- Static tokens of the API. Of their secrets only hashes are kept.
CREATE TABLE tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT NOT NULL,
    hash BYTEA NOT NULL,
    role SMALLINT NOT NULL,
    -- The path of the subscription, group or collection that it holds in, or /.
    place TEXT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    revoked BIGINT,
    last_used BIGINT
);
