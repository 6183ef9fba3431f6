-- Sessions of the web console. Only hashes of their ids are stored.
CREATE TABLE sessions (
    hash BLOB PRIMARY KEY,
    -- start-token, token: and the id of a token, or oidc: and a subject.
    identity TEXT NOT NULL,
    -- Of start-token: hash of the session id and the token.
    proof BLOB,
    -- Of oidc: display name, and a line with role and scope for each grant.
    name TEXT,
    grants TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_identity ON sessions (identity, created);
CREATE INDEX sessions_by_expiry ON sessions (expires);
