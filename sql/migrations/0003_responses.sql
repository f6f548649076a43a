-- Version 3: answers of /v1/responses that later requests build upon.
CREATE TABLE responses (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 6 AND 64),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    previous_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    input TEXT NOT NULL CHECK (input GLOB '[[]*]'),
    response TEXT NOT NULL CHECK (response GLOB '{*}')
) STRICT;
CREATE INDEX responses_by_user ON responses (user_id);
CREATE INDEX responses_by_expiry ON responses (expires_at);
PRAGMA user_version = 3;
