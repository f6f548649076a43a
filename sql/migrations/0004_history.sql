-- Version 4: pins, archive, trash, forks and tags of conversations, and an index to search messages by. The table is made
-- anew, so that its text is schema.sql's; references to it keep its name; no id is given out twice.
PRAGMA legacy_alter_table = ON;
ALTER TABLE conversations RENAME TO conversations_3;
PRAGMA legacy_alter_table = OFF;
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    title TEXT NOT NULL DEFAULT '' CHECK (length(title) <= 512),
    settings TEXT NOT NULL DEFAULT '{}' CHECK (settings GLOB '{*}'),
    leaf_id INTEGER,
    pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    fork_of INTEGER REFERENCES conversations (id) ON DELETE SET NULL, -- whose messages it began with
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    trashed_at INTEGER, -- in the trash; the recorder deletes it after 30 days
    deleted_at INTEGER, -- deleted by its owner; the recorder clears it away
    FOREIGN KEY (id, leaf_id) REFERENCES messages (conversation_id, id) DEFERRABLE INITIALLY DEFERRED
) STRICT;
INSERT INTO conversations (id, user_id, title, settings, leaf_id, created_at, updated_at, deleted_at)
SELECT id, user_id, title, settings, leaf_id, created_at, updated_at, deleted_at FROM conversations_3;
DELETE FROM sqlite_sequence WHERE name = 'conversations';
INSERT INTO sqlite_sequence (name, seq) SELECT 'conversations', seq FROM sqlite_sequence WHERE name = 'conversations_3';
DROP TABLE conversations_3;
CREATE INDEX conversations_by_user ON conversations (user_id, updated_at DESC, id DESC)
    WHERE deleted_at IS NULL;
CREATE INDEX conversations_by_owner ON conversations (user_id);
CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX conversations_trashed ON conversations (trashed_at) WHERE trashed_at IS NOT NULL;
CREATE INDEX conversations_forks ON conversations (fork_of) WHERE fork_of IS NOT NULL;

CREATE TABLE conversation_tags (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    tag TEXT NOT NULL COLLATE NOCASE CHECK (length(tag) BETWEEN 1 AND 64),
    PRIMARY KEY (conversation_id, tag)
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE message_search USING fts5 (
    content, content = 'messages', content_rowid = 'id', tokenize = 'trigram', detail = none
);
INSERT INTO message_search (rowid, content) SELECT id, content FROM messages WHERE status <> 'running';
PRAGMA user_version = 4;
