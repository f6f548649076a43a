-- The index of message_search. It serves all users: each caller has compared the user for the row it speaks of.

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

-- What was removed stays in older parts of the index until these are merged: below 0 takes them all together.
-- name: search_merge
INSERT INTO message_search (message_search, rank) VALUES ('merge', :pages);
