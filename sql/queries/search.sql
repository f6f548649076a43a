-- The indexes message_search and attachment_search. They serve all users: each caller has compared the user for the row it speaks of.

-- name: search_add
INSERT INTO message_search (rowid, content)
SELECT id, content FROM messages WHERE id = :id AND status <> 'running';

-- The same rows that clear_messages then deletes.
-- name: search_remove
INSERT INTO message_search (message_search, rowid, content)
SELECT 'delete', m.id, m.content FROM messages m
WHERE m.conversation_id = :conversation_id ORDER BY m.id DESC LIMIT :limit;

-- name: search_remove_one
INSERT INTO message_search (message_search, rowid, content)
SELECT 'delete', id, content FROM messages WHERE id = :id AND status <> 'running';

-- name: search_add_file
INSERT INTO attachment_search (rowid, name, text) SELECT id, name, text FROM attachments WHERE id = :id;

-- Before attachment_remove (of :user_id) or attachment_clear (NULL) deletes the row, if it will.
-- name: search_remove_file
INSERT INTO attachment_search (attachment_search, rowid, name, text)
SELECT 'delete', id, name, text FROM attachments
WHERE id = :id AND loose_at IS NOT NULL AND (:user_id IS NULL OR user_id = :user_id);

-- Removed entries stay in older parts of the index until these are merged: a number below 0 merges them all together.
-- name: search_merge
INSERT INTO message_search (message_search, rank) VALUES ('merge', :pages);

-- name: search_merge_files
INSERT INTO attachment_search (attachment_search, rank) VALUES ('merge', :pages);

-- A small index is written anew instead. Merging keeps the notes on what was removed where all parts were on one level (FTS5 of
-- SQLite 3.45 and later brings them there), and nothing takes them away then.
-- name: search_small
SELECT count(*) FROM (SELECT 1 FROM message_search_data LIMIT :limit);

-- name: search_empty
INSERT INTO message_search (message_search) VALUES ('delete-all');

-- name: search_fill
INSERT INTO message_search (rowid, content) SELECT id, content FROM messages WHERE status <> 'running';

-- name: search_small_files
SELECT count(*) FROM (SELECT 1 FROM attachment_search_data LIMIT :limit);

-- name: search_empty_files
INSERT INTO attachment_search (attachment_search) VALUES ('delete-all');

-- name: search_fill_files
INSERT INTO attachment_search (rowid, name, text) SELECT id, name, text FROM attachments;
