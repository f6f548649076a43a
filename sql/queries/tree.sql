-- name: branch_ids
WITH RECURSIVE branch (id, parent_id) AS (
    SELECT m.id, m.parent_id FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.id = :message_id AND c.id = :conversation_id AND c.user_id = :user_id
      AND c.deleted_at IS NULL
    UNION ALL
    SELECT p.id, p.parent_id FROM messages p JOIN branch b ON p.id = b.parent_id
    WHERE p.conversation_id = :conversation_id
)
SELECT m.id, m.status FROM branch b JOIN messages m ON m.id = b.id
ORDER BY m.id LIMIT :limit;

-- Children first.
-- name: subtree_ids
WITH RECURSIVE subtree (id) AS (
    SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.id = :message_id AND c.id = :conversation_id AND c.user_id = :user_id
      AND c.deleted_at IS NULL
    UNION ALL
    SELECT k.id FROM subtree t JOIN messages k ON k.parent_id = t.id
    WHERE k.conversation_id = :conversation_id
)
SELECT m.id, m.status FROM subtree t JOIN messages m ON m.id = t.id
ORDER BY m.id DESC LIMIT :limit;

-- Begins as building_internal.h says.
-- name: conversation_fork
INSERT INTO conversations (user_id, key, title, settings, fork_of, project_id, created_at, updated_at, deleted_at)
SELECT user_id, lower(hex(randomblob(16))), coalesce(:title, title), settings, id, project_id, :now, :now, :until FROM conversations
WHERE id = :conversation_id AND user_id = :user_id AND deleted_at IS NULL
RETURNING id;

-- Of a conversation that is made in several transactions: puts the end off (:until), gives it up (:until is now), or shows it
-- (NULL).
-- name: conversation_building
UPDATE conversations SET deleted_at = :until, leaf_id = :leaf_id
WHERE id = :id AND user_id = :user_id AND deleted_at > :now
  AND EXISTS (SELECT 1 FROM users WHERE id = :user_id AND deleted_at IS NULL);

-- name: tags_fork
INSERT INTO conversation_tags (conversation_id, folded, tag)
SELECT :fork_id, t.folded, t.tag FROM conversations c JOIN conversation_tags t ON t.conversation_id = c.id
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: message_copy
INSERT INTO messages (conversation_id, parent_id, role, status, content, reasoning, tool_calls, tool_call_id, error, error_detail,
                      model, timings, prompt_tokens, cached_tokens, completion_tokens, created_at, finished_at, sources)
SELECT :fork_id, :parent_id, m.role, m.status, m.content, m.reasoning, m.tool_calls, m.tool_call_id, m.error, m.error_detail,
       m.model, m.timings, m.prompt_tokens, m.cached_tokens, m.completion_tokens, m.created_at, m.finished_at, m.sources
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL
RETURNING id, length(CAST(content AS BLOB)) + length(CAST(reasoning AS BLOB)) + coalesce(length(CAST(tool_calls AS BLOB)), 0);

-- name: message_place
SELECT m.conversation_id, m.parent_id FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- A deleted conversation for messages that are deleted out of another one.
-- name: conversation_removed
INSERT INTO conversations (user_id, key, created_at, updated_at, deleted_at)
SELECT user_id, lower(hex(randomblob(16))), :now, :now, :now FROM conversations
WHERE id = :conversation_id AND user_id = :user_id AND deleted_at IS NULL
RETURNING id;

-- A link to a message goes before the message does.
-- name: shares_drop
DELETE FROM shares WHERE conversation_id = :conversation_id AND leaf_id = :id AND user_id = :user_id;

-- name: message_remove
UPDATE messages SET conversation_id = :to, parent_id = NULL
WHERE id = :id AND conversation_id = (SELECT id FROM conversations
                                      WHERE id = :conversation_id AND user_id = :user_id AND deleted_at IS NULL)
RETURNING length(CAST(content AS BLOB)) + length(CAST(reasoning AS BLOB)) + coalesce(length(CAST(tool_calls AS BLOB)), 0);

-- A leaf in the subtree of :message_id, which is about to go: from beside it, below :parent_id (NULL: among the roots), down
-- along the newest child of each.
-- name: leaf_leave
WITH RECURSIVE subtree (id) AS (
    VALUES (:message_id)
    UNION ALL
    SELECT k.id FROM subtree t JOIN messages k ON k.parent_id = t.id
    WHERE k.conversation_id = :conversation_id
), newest (id) AS (
    SELECT coalesce((SELECT max(m.id) FROM messages m
                     WHERE m.conversation_id = :conversation_id AND m.parent_id IS :parent_id
                       AND m.id <> :message_id), :parent_id)
    UNION
    SELECT (SELECT max(m.id) FROM messages m
            WHERE m.conversation_id = :conversation_id AND m.parent_id = n.id AND m.id <> :message_id)
    FROM newest n WHERE n.id IS NOT NULL
)
UPDATE conversations SET leaf_id = (SELECT max(id) FROM newest)
WHERE id = :conversation_id AND user_id = :user_id AND deleted_at IS NULL AND leaf_id IN (SELECT id FROM subtree);

-- What somebody made of an answer, beside it: their text, the rest as it was.
-- name: message_add_version
INSERT INTO messages (conversation_id, parent_id, role, status, content, reasoning, model, sources, created_at, finished_at)
SELECT m.conversation_id, m.parent_id, m.role, 'done', :content, m.reasoning, m.model, m.sources, :now, :now
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND m.role = 'assistant' AND m.status <> 'running'
  AND c.user_id = :user_id AND c.deleted_at IS NULL
RETURNING id;

-- Of one message that may be taken out from between: NULL, or why not.
-- name: message_between
SELECT CASE WHEN m.status = 'running' THEN 'an answer is still being written'
            WHEN m.role = 'tool' OR m.tool_calls IS NOT NULL THEN 'calls and their results go together'
            WHEN m.parent_id IS NULL AND EXISTS (SELECT 1 FROM messages k
                                                 WHERE k.conversation_id = m.conversation_id AND k.parent_id = m.id)
            THEN 'a conversation begins with a question' END
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: message_children_up
UPDATE messages SET parent_id = :parent_id
WHERE conversation_id = (SELECT id FROM conversations
                         WHERE id = :conversation_id AND user_id = :user_id AND deleted_at IS NULL)
  AND parent_id = :id;
