-- Version 9: invitations, second factors, what a user may use, and how many bytes of text each one keeps.
CREATE TABLE invites (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    role TEXT NOT NULL CHECK (role IN ('admin', 'user')),
    note TEXT NOT NULL CHECK (length(note) <= 64),
    made_by INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER,
    used_by INTEGER,
    revoked_at INTEGER
) STRICT;
CREATE INDEX invites_open ON invites (expires_at) WHERE used_at IS NULL AND revoked_at IS NULL;
CREATE TABLE second_factors (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    secret BLOB NOT NULL CHECK (length(secret) = 20),
    created_at INTEGER NOT NULL,
    confirmed_at INTEGER, -- NULL: a proof is still missing, and it asks for nothing
    last_step INTEGER NOT NULL DEFAULT 0 -- of the last code that was taken: none is taken twice
) STRICT;
CREATE TABLE recovery_codes (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    code_hash BLOB NOT NULL CHECK (length(code_hash) = 32),
    PRIMARY KEY (user_id, code_hash)
) STRICT, WITHOUT ROWID;
CREATE TABLE user_limits (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    requests_per_minute INTEGER NOT NULL CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER NOT NULL CHECK (tokens_per_minute >= 0),
    max_jobs INTEGER NOT NULL CHECK (max_jobs >= 0),
    tokens_per_day INTEGER NOT NULL CHECK (tokens_per_day >= 0),
    storage_bytes INTEGER NOT NULL CHECK (storage_bytes >= 0)
) STRICT;
CREATE TABLE user_texts (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO user_texts (user_id, bytes)
SELECT u.id, coalesce((SELECT sum(length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB)))
                       FROM conversations c JOIN messages m ON m.conversation_id = c.id WHERE c.user_id = u.id), 0)
FROM users u;
CREATE TRIGGER user_texts_begin AFTER INSERT ON users BEGIN
    INSERT INTO user_texts (user_id, bytes) VALUES (NEW.id, 0);
END;
CREATE TRIGGER user_texts_add AFTER INSERT ON messages BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.content AS BLOB)) + length(CAST(NEW.reasoning AS BLOB))
    WHERE user_id = (SELECT user_id FROM conversations WHERE id = NEW.conversation_id);
END;
CREATE TRIGGER user_texts_change AFTER UPDATE OF content, reasoning ON messages BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.content AS BLOB)) + length(CAST(NEW.reasoning AS BLOB))
        - length(CAST(OLD.content AS BLOB)) - length(CAST(OLD.reasoning AS BLOB))
    WHERE user_id = (SELECT user_id FROM conversations WHERE id = NEW.conversation_id);
END;
CREATE TRIGGER user_texts_remove BEFORE DELETE ON messages BEGIN
    UPDATE user_texts SET bytes = bytes - length(CAST(OLD.content AS BLOB)) - length(CAST(OLD.reasoning AS BLOB))
    WHERE user_id = (SELECT user_id FROM conversations WHERE id = OLD.conversation_id);
END;
DROP INDEX sessions_by_user;
CREATE INDEX sessions_by_use ON sessions (user_id, used_at);
PRAGMA user_version = 9;
