-- Version 7: read-only links to conversations.
CREATE TABLE shares (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    leaf_id INTEGER NOT NULL,
    title TEXT NOT NULL, -- as it was then
    created_at INTEGER NOT NULL,
    expires_at INTEGER, -- NULL: never
    FOREIGN KEY (conversation_id, leaf_id) REFERENCES messages (conversation_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX shares_by_user ON shares (user_id, id DESC);
CREATE INDEX shares_by_leaf ON shares (conversation_id, leaf_id);
CREATE INDEX shares_by_expiry ON shares (expires_at) WHERE expires_at IS NOT NULL;
PRAGMA user_version = 7;
