-- Version 22: a key may have the scope metrics. The table is made anew, so that its text is schema.sql's; the
-- old counter goes along, so that an id is never given out twice.
ALTER TABLE api_keys RENAME TO api_keys_21;
DROP INDEX api_keys_by_user;
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key_hash BLOB NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    prefix TEXT NOT NULL CHECK (length(prefix) <= 24),
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL DEFAULT 0,
    scopes INTEGER NOT NULL DEFAULT 7 CHECK (scopes BETWEEN 1 AND 15), -- 1 inference, 2 history, 4 admin, 8 metrics
    expires_at INTEGER NOT NULL DEFAULT 0, -- 0: never
    requests_per_minute INTEGER NOT NULL DEFAULT 0 CHECK (requests_per_minute >= 0), -- limits: 0 is none
    tokens_per_minute INTEGER NOT NULL DEFAULT 0 CHECK (tokens_per_minute >= 0),
    max_jobs INTEGER NOT NULL DEFAULT 0 CHECK (max_jobs >= 0),
    strict_parameters INTEGER NOT NULL DEFAULT 0 CHECK (strict_parameters IN (0, 1)) -- refuse what has no effect
) STRICT;
INSERT INTO api_keys (id, user_id, key_hash, name, prefix, created_at, used_at, scopes, expires_at, requests_per_minute,
    tokens_per_minute, max_jobs, strict_parameters)
SELECT id, user_id, key_hash, name, prefix, created_at, used_at, scopes, expires_at, requests_per_minute,
    tokens_per_minute, max_jobs, strict_parameters FROM api_keys_21;
DELETE FROM sqlite_sequence WHERE name = 'api_keys';
INSERT INTO sqlite_sequence (name, seq) SELECT 'api_keys', seq FROM sqlite_sequence WHERE name = 'api_keys_21';
DROP TABLE api_keys_21;
CREATE INDEX api_keys_by_user ON api_keys (user_id);
PRAGMA user_version = 22;
