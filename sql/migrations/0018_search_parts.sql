-- What is searched is indexed afterwards where it is long. The indexes that there are stay as they are.
-- Long texts, and texts that came many at once, are searched in parts: rows here instead of entries in the two indexes above. The
-- recorder puts the parts into part_search, a few in a transaction, so that nobody waits for a whole text. A part begins at
-- a letter and overlaps the next one by more letters than a search may have. removed: taken out again, before its text is deleted.
CREATE TABLE search_parts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL, -- whose text it is
    message_id INTEGER REFERENCES messages (id),
    attachment_id INTEGER REFERENCES attachments (id),
    start INTEGER NOT NULL CHECK (start >= 1),
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'indexed', 'removed')),
    CHECK ((message_id IS NULL) <> (attachment_id IS NULL))
) STRICT;
CREATE INDEX search_parts_by_message ON search_parts (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX search_parts_by_attachment ON search_parts (attachment_id) WHERE attachment_id IS NOT NULL;
CREATE INDEX search_parts_waiting ON search_parts (user_id, id) WHERE state = 'waiting';
CREATE VIEW search_part_texts AS
SELECT p.id, p.message_id, p.attachment_id,
    CASE WHEN p.attachment_id IS NULL THEN (SELECT substr(m.content, p.start, 18432) FROM messages m WHERE m.id = p.message_id)
         ELSE (SELECT substr(a.name || char(10) || coalesce(a.text, ''), p.start, 18432)
               FROM attachments a WHERE a.id = p.attachment_id) END AS text
FROM search_parts p WHERE p.state = 'indexed';
CREATE VIRTUAL TABLE part_search USING fts5 (
    text, content = 'search_part_texts', content_rowid = 'id', tokenize = 'trigram', detail = none
);

PRAGMA user_version = 18;
