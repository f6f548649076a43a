-- Version 21: a session knows when its user last proved who they are, and there are passkeys. The sessions that there are have
-- proved nothing yet. Their table is made anew, so that its text is schema.sql's.
ALTER TABLE sessions RENAME TO sessions_20;
DROP INDEX sessions_by_use;
DROP INDEX sessions_by_expiry;
CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY CHECK (length(token_hash) = 32),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    address TEXT NOT NULL DEFAULT '',
    agent TEXT NOT NULL DEFAULT '',
    confirmed_at INTEGER NOT NULL DEFAULT 0 -- when its user last proved who they are; 0: not since, or it is used up
) STRICT, WITHOUT ROWID;
INSERT INTO sessions (token_hash, user_id, created_at, used_at, expires_at, address, agent)
SELECT token_hash, user_id, created_at, used_at, expires_at, address, agent FROM sessions_20;
DROP TABLE sessions_20;
CREATE INDEX sessions_by_use ON sessions (user_id, used_at);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Passkeys: public keys of authenticators, so that nothing in here serves to log in.
CREATE TABLE webauthn_credentials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    credential_id BLOB NOT NULL UNIQUE CHECK (length(credential_id) BETWEEN 1 AND 1023),
    algorithm INTEGER NOT NULL CHECK (algorithm IN (-7, -8, -257)), -- COSE: ES256, EdDSA, RS256
    public_key BLOB NOT NULL,
    counter INTEGER NOT NULL CHECK (counter BETWEEN 0 AND 4294967295), -- of signatures; 0: the authenticator counts none
    transports TEXT NOT NULL DEFAULT '', -- how browsers reach it, with blanks between them
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX webauthn_credentials_by_user ON webauthn_credentials (user_id);

-- What an authenticator is asked to sign: taken once, by the session or the browser that asked for it.
CREATE TABLE webauthn_challenges (
    challenge_hash BLOB PRIMARY KEY CHECK (length(challenge_hash) = 32),
    purpose TEXT NOT NULL CHECK (purpose IN ('register', 'login', 'confirm')),
    asked_by BLOB NOT NULL CHECK (length(asked_by) = 32), -- hash of the session's token, or of the browser's cookie
    expires_at INTEGER NOT NULL,
    UNIQUE (asked_by, purpose)
) STRICT, WITHOUT ROWID;
CREATE INDEX webauthn_challenges_by_expiry ON webauthn_challenges (expires_at);
PRAGMA user_version = 21;
