-- Sessions of the web console. Only hashes of their ids are stored.
CREATE TABLE sessions (
    hash BYTEA PRIMARY KEY,
    -- start-token, token: and the id of a token, or oidc: and a subject.
    identity TEXT COLLATE "C" NOT NULL,
    -- Of start-token: hash of the session id and the token.
    proof BYTEA,
    -- Of oidc: display name, and a line with role and scope for each grant.
    name TEXT,
    grants TEXT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT NOT NULL
);

CREATE INDEX sessions_by_identity ON sessions (identity, created);
CREATE INDEX sessions_by_expiry ON sessions (expires);
