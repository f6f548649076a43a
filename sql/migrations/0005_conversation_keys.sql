-- Version 5: each conversation has a key, by which exports name it. The table is made anew, as in version 4.
PRAGMA legacy_alter_table = ON;
ALTER TABLE conversations RENAME TO conversations_4;
PRAGMA legacy_alter_table = OFF;
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 64), -- its name in exports, the same on every server
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
INSERT INTO conversations (id, user_id, key, title, settings, leaf_id, pinned, archived, fork_of, created_at, updated_at,
                           trashed_at, deleted_at)
SELECT id, user_id, lower(hex(randomblob(16))), title, settings, leaf_id, pinned, archived, fork_of, created_at, updated_at,
       trashed_at, deleted_at FROM conversations_4;
DELETE FROM sqlite_sequence WHERE name = 'conversations';
INSERT INTO sqlite_sequence (name, seq) SELECT 'conversations', seq FROM sqlite_sequence WHERE name = 'conversations_4';
DROP TABLE conversations_4;
CREATE INDEX conversations_by_user ON conversations (user_id, updated_at DESC, id DESC)
    WHERE deleted_at IS NULL;
CREATE INDEX conversations_by_owner ON conversations (user_id);
CREATE UNIQUE INDEX conversations_by_key ON conversations (user_id, key) WHERE deleted_at IS NULL;
CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX conversations_trashed ON conversations (trashed_at) WHERE trashed_at IS NOT NULL;
CREATE INDEX conversations_forks ON conversations (fork_of) WHERE fork_of IS NOT NULL;
PRAGMA user_version = 5;
