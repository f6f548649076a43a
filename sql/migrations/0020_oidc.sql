-- Version 20: accounts at an OpenID provider that sign in as users of this server, and sign-ins that are under way there.
CREATE TABLE oidc_identities (
    issuer TEXT NOT NULL CHECK (length(issuer) BETWEEN 1 AND 1000),
    subject TEXT NOT NULL CHECK (length(subject) BETWEEN 1 AND 255), -- the issuer's name for the account: never given to another
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    label TEXT NOT NULL DEFAULT '' CHECK (length(label) <= 200), -- what its owner knows it by; nothing is decided by it
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX oidc_identities_by_user ON oidc_identities (user_id, issuer);
CREATE TABLE oidc_flows (
    state_hash BLOB PRIMARY KEY CHECK (length(state_hash) = 32),
    browser_hash BLOB NOT NULL CHECK (length(browser_hash) = 32), -- of the cookie of the browser that began it
    session_hash BLOB CHECK (length(session_hash) = 32), -- the session that links the account; NULL: somebody signs in
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oidc_flows_by_expiry ON oidc_flows (expires_at);
PRAGMA user_version = 20;
