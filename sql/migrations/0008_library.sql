-- Version 8: presets and prompts, tokens of unfinished answers, titles given by their users.
CREATE TABLE library (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('preset', 'prompt')),
    name TEXT NOT NULL COLLATE NOCASE CHECK (length(name) BETWEEN 1 AND 64),
    body TEXT NOT NULL CHECK (body <> ''),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, kind, name)
) STRICT;

CREATE TABLE unfinished (
    message_id INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    tokens BLOB NOT NULL CHECK (length(tokens) % 4 = 0),
    text_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE own_titles (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE
) STRICT;
PRAGMA user_version = 8;
