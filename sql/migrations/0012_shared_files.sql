-- Version 12: links may show the files of what they show. Those that were made before do not. The table is made anew, so that
-- its text is schema.sql's; no id is given out twice.
ALTER TABLE shares RENAME TO shares_11;
CREATE TABLE shares (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    leaf_id INTEGER NOT NULL,
    title TEXT NOT NULL, -- as it was then
    created_at INTEGER NOT NULL,
    expires_at INTEGER, -- NULL: never
    files INTEGER NOT NULL DEFAULT 0 CHECK (files IN (0, 1)), -- the branch's attachments are shown too
    FOREIGN KEY (conversation_id, leaf_id) REFERENCES messages (conversation_id, id) ON DELETE CASCADE
) STRICT;
INSERT INTO shares (id, token_hash, user_id, conversation_id, leaf_id, title, created_at, expires_at)
SELECT id, token_hash, user_id, conversation_id, leaf_id, title, created_at, expires_at FROM shares_11;
DELETE FROM sqlite_sequence WHERE name = 'shares';
INSERT INTO sqlite_sequence (name, seq) SELECT 'shares', seq FROM sqlite_sequence WHERE name = 'shares_11';
DROP TABLE shares_11;
CREATE INDEX shares_by_user ON shares (user_id, id DESC);
CREATE INDEX shares_by_leaf ON shares (conversation_id, leaf_id);
CREATE INDEX shares_by_expiry ON shares (expires_at) WHERE expires_at IS NOT NULL;
PRAGMA user_version = 12;
