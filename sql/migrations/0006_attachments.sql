-- Version 6: files that go along with messages.
-- Files that a user gave along with messages, one row for each upload. Their bytes lie beside the database, in
-- attachments/, under their SHA-256 and once however many rows name them. text is what the model reads of it; NULL: an image.
CREATE TABLE attachments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    type TEXT NOT NULL CHECK (length(type) BETWEEN 3 AND 127),
    bytes INTEGER NOT NULL CHECK (bytes >= 0),
    tokens INTEGER CHECK (tokens >= 0), -- of its part of a prompt, as `model` counts
    model TEXT,
    note TEXT, -- what is to be known of how it was read
    created_at INTEGER NOT NULL,
    loose_at INTEGER, -- in no message: since then; 0: it was in one, and is cleared away at once
    text TEXT
) STRICT;
CREATE INDEX attachments_by_user ON attachments (user_id);
CREATE INDEX attachments_by_content ON attachments (sha256);
CREATE INDEX attachments_loose ON attachments (loose_at) WHERE loose_at IS NOT NULL;

CREATE TABLE message_attachments (
    message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    attachment_id INTEGER NOT NULL REFERENCES attachments (id),
    PRIMARY KEY (message_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_attachments_by_attachment ON message_attachments (attachment_id);
CREATE TRIGGER attachment_loosened AFTER DELETE ON message_attachments
WHEN NOT EXISTS (SELECT 1 FROM message_attachments WHERE attachment_id = OLD.attachment_id) BEGIN
    UPDATE attachments SET loose_at = 0 WHERE id = OLD.attachment_id;
END;
PRAGMA user_version = 6;
