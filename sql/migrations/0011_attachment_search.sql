-- Version 11: attachments are found by their names and their text.
CREATE VIRTUAL TABLE attachment_search USING fts5 (
    name, text, content = 'attachments', content_rowid = 'id', tokenize = 'trigram', detail = none
);
INSERT INTO attachment_search (rowid, name, text) SELECT id, name, text FROM attachments;
PRAGMA user_version = 11;
