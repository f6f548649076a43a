-- Version 33: projects, which are folders of chats with instructions and files of their own, and what answers were given of them.
CREATE TABLE projects (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 64), -- its name in exports, the same on every server
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    colour INTEGER NOT NULL DEFAULT 0 CHECK (colour BETWEEN 0 AND 7), -- one of the theme's eight
    instructions TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, key)
) STRICT;
ALTER TABLE conversations ADD COLUMN project_id INTEGER REFERENCES projects (id) ON DELETE SET NULL;
CREATE INDEX conversations_by_project ON conversations (project_id, updated_at DESC, id DESC) WHERE project_id IS NOT NULL;
ALTER TABLE messages ADD COLUMN sources TEXT CHECK (sources GLOB '{*}');
DROP VIEW message_bytes;
CREATE VIEW message_bytes AS
SELECT m.id, c.user_id, length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
    + length(CAST(coalesce(m.tool_calls, '') || coalesce(m.tool_call_id, '') || coalesce(m.error, '') || coalesce(m.model, '')
        || coalesce(m.job_key, '') || coalesce(m.parser, '') || coalesce(m.timings, '') || coalesce(m.error_detail, '')
        || coalesce(m.sources, '') AS BLOB)) AS bytes
FROM messages m JOIN conversations c ON c.id = m.conversation_id;
-- A project's files are attachments, which stay as long as a message or a project has them.
CREATE TABLE project_files (
    project_id INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    attachment_id INTEGER NOT NULL REFERENCES attachments (id),
    PRIMARY KEY (project_id, attachment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_files_by_attachment ON project_files (attachment_id);
DROP TRIGGER attachment_loosened;
CREATE TRIGGER attachment_loosened AFTER DELETE ON message_attachments
WHEN NOT EXISTS (SELECT 1 FROM message_attachments WHERE attachment_id = OLD.attachment_id)
 AND NOT EXISTS (SELECT 1 FROM project_files WHERE attachment_id = OLD.attachment_id) BEGIN
    UPDATE attachments SET loose_at = 0 WHERE id = OLD.attachment_id;
END;
CREATE TRIGGER project_file_loosened AFTER DELETE ON project_files
WHEN NOT EXISTS (SELECT 1 FROM message_attachments WHERE attachment_id = OLD.attachment_id)
 AND NOT EXISTS (SELECT 1 FROM project_files WHERE attachment_id = OLD.attachment_id) BEGIN
    UPDATE attachments SET loose_at = 0 WHERE id = OLD.attachment_id;
END;
-- Text of a project's own counts like that of messages.
CREATE TRIGGER user_texts_project_add AFTER INSERT ON projects BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.name || NEW.instructions AS BLOB)) WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_project_change AFTER UPDATE ON projects BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.name || NEW.instructions AS BLOB))
        - length(CAST(OLD.name || OLD.instructions AS BLOB)) WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_project_remove AFTER DELETE ON projects BEGIN
    UPDATE user_texts SET bytes = bytes - length(CAST(OLD.name || OLD.instructions AS BLOB)) WHERE user_id = OLD.user_id;
END;
-- Passages of the text of projects' files, some 1600 letters each, for the search by words. The recorder puts them into chunk_search,
-- a few in a transaction. The index keeps no text; owner is 'u' and the user's id, so that a search finds no other user's entries.
CREATE TABLE file_chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    attachment_id INTEGER NOT NULL REFERENCES attachments (id),
    start INTEGER NOT NULL CHECK (start >= 0), -- bytes of the attachment's text before it
    bytes INTEGER NOT NULL CHECK (bytes > 0),
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'indexed')),
    UNIQUE (attachment_id, start)
) STRICT;
CREATE INDEX file_chunks_waiting ON file_chunks (attachment_id, id) WHERE state = 'waiting';
CREATE VIRTUAL TABLE chunk_search USING fts5 (
    owner, text, content = '', tokenize = 'unicode61 remove_diacritics 2'
);
PRAGMA user_version = 32;
