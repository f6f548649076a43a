-- Version 2: what a key may do, until when, and how much of it. The table is made anew, so that its text is schema.sql's;
-- the old counter goes along, so that an id is never given out twice.
ALTER TABLE api_keys RENAME TO api_keys_1;
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key_hash BLOB NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    prefix TEXT NOT NULL CHECK (length(prefix) <= 24),
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL DEFAULT 0,
    scopes INTEGER NOT NULL DEFAULT 7 CHECK (scopes BETWEEN 1 AND 7), -- 1 inference, 2 history, 4 admin
    expires_at INTEGER NOT NULL DEFAULT 0, -- 0: never
    requests_per_minute INTEGER NOT NULL DEFAULT 0 CHECK (requests_per_minute >= 0), -- limits: 0 is none
    tokens_per_minute INTEGER NOT NULL DEFAULT 0 CHECK (tokens_per_minute >= 0),
    max_jobs INTEGER NOT NULL DEFAULT 0 CHECK (max_jobs >= 0)
) STRICT;
INSERT INTO api_keys (id, user_id, key_hash, name, prefix, created_at, used_at)
SELECT id, user_id, key_hash, name, prefix, created_at, used_at FROM api_keys_1;
DELETE FROM sqlite_sequence WHERE name = 'api_keys';
INSERT INTO sqlite_sequence (name, seq) SELECT 'api_keys', seq FROM sqlite_sequence WHERE name = 'api_keys_1';
DROP TABLE api_keys_1;
CREATE INDEX api_keys_by_user ON api_keys (user_id);
PRAGMA user_version = 2;
