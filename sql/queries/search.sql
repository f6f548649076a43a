-- The indexes message_search, attachment_search and part_search. They serve all users: each caller has compared the user for the row it speaks of.

-- name: search_add
INSERT INTO message_search (rowid, content)
SELECT id, content FROM messages WHERE id = :id AND status <> 'running';

-- name: search_message_bytes
SELECT length(CAST(content AS BLOB)) FROM messages WHERE id = :id AND status <> 'running';

-- What has parts is not in message_search.
-- name: search_remove
INSERT INTO message_search (message_search, rowid, content)
SELECT 'delete', m.id, m.content FROM messages m
WHERE m.id = :id AND m.status <> 'running' AND NOT EXISTS (SELECT 1 FROM search_parts WHERE message_id = m.id);

-- name: search_add_file
INSERT INTO attachment_search (rowid, name, text) SELECT id, name, text FROM attachments WHERE id = :id;

-- name: search_file_bytes
SELECT length(CAST(name AS BLOB)) + coalesce(length(CAST(text AS BLOB)), 0) FROM attachments WHERE id = :id;

-- What has parts is not in attachment_search.
-- name: search_remove_file
INSERT INTO attachment_search (attachment_search, rowid, name, text)
SELECT 'delete', a.id, a.name, a.text FROM attachments a
WHERE a.id = :id AND NOT EXISTS (SELECT 1 FROM search_parts WHERE attachment_id = a.id);

-- May it go? :user_id NULL: by the recorder, whosever it is.
-- name: search_file_loose
SELECT 1 FROM attachments WHERE id = :id AND loose_at IS NOT NULL AND (:user_id IS NULL OR user_id = :user_id);

-- Every 16384 letters one; the first one always, so that an empty text is known to be none of the other index.
-- name: part_add
WITH RECURSIVE whole (user_id, letters) AS (
    SELECT c.user_id, length(m.content) FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.id = :id AND m.status <> 'running'
), part (start) AS (
    SELECT 1 FROM whole
    UNION ALL
    SELECT p.start + 16384 FROM part p, whole w WHERE p.start + 16384 <= w.letters
)
INSERT INTO search_parts (user_id, message_id, start) SELECT w.user_id, :id, p.start FROM whole w, part p;

-- name: part_add_file
WITH RECURSIVE whole (user_id, letters) AS (
    SELECT user_id, length(name) + 1 + coalesce(length(text), 0) FROM attachments WHERE id = :id
), part (start) AS (
    SELECT 1 FROM whole
    UNION ALL
    SELECT p.start + 16384 FROM part p, whole w WHERE p.start + 16384 <= w.letters
)
INSERT INTO search_parts (user_id, attachment_id, start) SELECT w.user_id, :id, p.start FROM whole w, part p;

-- name: part_waiting
SELECT id FROM search_parts WHERE state = 'waiting' AND user_id = :user_id LIMIT 1;

-- name: part_next
SELECT id, user_id FROM search_parts WHERE state = 'waiting' AND user_id > :after ORDER BY user_id, id LIMIT 1;

-- The view shows it from here on.
-- name: part_mark
UPDATE search_parts SET state = :state WHERE id = :id;

-- name: part_index
INSERT INTO part_search (rowid, text) SELECT id, text FROM search_part_texts WHERE id = :id;

-- name: part_letters
SELECT length(text) FROM search_part_texts WHERE id = :id;

-- name: part_indexed
SELECT id FROM search_parts WHERE message_id = :id AND state = 'indexed' LIMIT 1;

-- name: part_indexed_file
SELECT id FROM search_parts WHERE attachment_id = :id AND state = 'indexed' LIMIT 1;

-- name: part_remove
INSERT INTO part_search (part_search, rowid, text) SELECT 'delete', id, text FROM search_part_texts WHERE id = :id;

-- name: part_drop
DELETE FROM search_parts WHERE message_id = :id;

-- name: part_drop_file
DELETE FROM search_parts WHERE attachment_id = :id;

-- A file that was being taken away, and then was attached to a message.
-- name: part_again_file
UPDATE search_parts SET state = 'waiting' WHERE attachment_id = :id AND state = 'removed';

-- Removed entries stay in older parts of the index until these are merged: a number below 0 merges them all together.
-- name: search_merge
INSERT INTO message_search (message_search, rank) VALUES ('merge', :pages);

-- name: search_merge_files
INSERT INTO attachment_search (attachment_search, rank) VALUES ('merge', :pages);

-- name: search_merge_parts
INSERT INTO part_search (part_search, rank) VALUES ('merge', :pages);

-- A small index of little text is written anew instead. Merging keeps the notes on what was removed where all parts were on one
-- level (FTS5 of SQLite 3.45 and later brings them there), and nothing takes them away then. The sizes are of its texts, one a row:
-- a text that repeats itself takes few pages and seconds to index.
-- name: search_small
SELECT count(*) FROM (SELECT 1 FROM message_search_data LIMIT :limit);

-- name: search_sizes
SELECT length(CAST(m.content AS BLOB)) FROM messages m
WHERE m.status <> 'running' AND NOT EXISTS (SELECT 1 FROM search_parts WHERE message_id = m.id);

-- name: search_empty
INSERT INTO message_search (message_search) VALUES ('delete-all');

-- name: search_fill
INSERT INTO message_search (rowid, content) SELECT m.id, m.content FROM messages m
WHERE m.status <> 'running' AND NOT EXISTS (SELECT 1 FROM search_parts WHERE message_id = m.id);

-- name: search_small_files
SELECT count(*) FROM (SELECT 1 FROM attachment_search_data LIMIT :limit);

-- name: search_sizes_files
SELECT length(CAST(a.text AS BLOB)) FROM attachments a
WHERE NOT EXISTS (SELECT 1 FROM search_parts WHERE attachment_id = a.id);

-- name: search_empty_files
INSERT INTO attachment_search (attachment_search) VALUES ('delete-all');

-- name: search_fill_files
INSERT INTO attachment_search (rowid, name, text) SELECT a.id, a.name, a.text FROM attachments a
WHERE NOT EXISTS (SELECT 1 FROM search_parts WHERE attachment_id = a.id);

-- name: search_small_parts
SELECT count(*) FROM (SELECT 1 FROM part_search_data LIMIT :limit);

-- name: search_sizes_parts
SELECT length(CAST(text AS BLOB)) FROM search_part_texts;

-- name: search_empty_parts
INSERT INTO part_search (part_search) VALUES ('delete-all');

-- name: search_fill_parts
INSERT INTO part_search (rowid, text) SELECT id, text FROM search_part_texts;
