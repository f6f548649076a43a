-- The recorder's: it serves all users, so these carry no user.

-- name: running_list
SELECT m.id, m.conversation_id, c.user_id, m.job_key, m.parser, coalesce(CASE WHEN json_valid(m.parser) THEN json_extract(m.parser, '$.began_at') END, m.created_at),
       length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
           + coalesce(length(CAST(m.tool_calls AS BLOB)), 0),
       c.deleted_at IS NOT NULL
FROM messages m INDEXED BY messages_running JOIN conversations c ON c.id = m.conversation_id
WHERE m.status = 'running'
ORDER BY m.id;

-- name: record_write
UPDATE messages
SET status = :status,
    content = CASE WHEN :keep THEN content ELSE :content END,
    reasoning = CASE WHEN :keep THEN reasoning ELSE :reasoning END,
    tool_calls = CASE WHEN :keep THEN tool_calls ELSE :tool_calls END,
    -- the text that it was begun with stands in the row now
    parser = CASE WHEN :status <> 'running' AND json_valid(parser) THEN json_remove(parser, '$.prefix') ELSE parser END,
    error = :error, error_detail = :error_detail, timings = :timings, prompt_tokens = :prompt_tokens,
    cached_tokens = :cached_tokens, completion_tokens = :completion_tokens,
    finished_at = CASE WHEN :status = 'running' THEN NULL ELSE :now END
WHERE id = :id AND status = 'running';

-- An answer that ended early: its new tokens, after those that it was begun with.
-- name: unfinished_keep
INSERT INTO unfinished (message_id, tokens, text_bytes)
SELECT m.id, :tokens, length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
                      + coalesce(length(CAST(m.tool_calls AS BLOB)), 0)
FROM messages m WHERE m.id = :id
ON CONFLICT (message_id) DO UPDATE
SET tokens = CAST(unfinished.tokens || excluded.tokens AS BLOB), text_bytes = excluded.text_bytes;

-- name: unfinished_drop
DELETE FROM unfinished WHERE message_id = :id;

-- Children have greater ids than their parents: from the top down no foreign key is hurt.
-- name: clear_last_message
SELECT m.id, length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB)) + coalesce(length(CAST(m.tool_calls AS BLOB)), 0)
FROM messages m WHERE m.conversation_id = :conversation_id ORDER BY m.id DESC LIMIT 1;

-- name: clear_message
DELETE FROM messages WHERE id = :id;

-- name: clear_next_trashed
SELECT id FROM conversations WHERE trashed_at < :before AND deleted_at IS NULL LIMIT 1;

-- Restored in the meantime: it stays.
-- name: clear_trashed
UPDATE conversations SET deleted_at = :now, trashed_at = NULL, leaf_id = NULL
WHERE id = :id AND trashed_at < :before AND deleted_at IS NULL;

-- A deleted conversation in which nothing runs any more; not one that is still being made (conversation_building).
-- name: clear_next_conversation
SELECT c.id FROM conversations c
WHERE c.deleted_at <= :now
  AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = c.id AND m.status = 'running')
LIMIT 1;

-- name: clear_conversation
DELETE FROM conversations
WHERE id = :id AND deleted_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation_id = :id)
  AND NOT EXISTS (SELECT 1 FROM prompt_blocks WHERE conversation_id = :id);

-- A deleted user who still has projects; chats of others may be in them.
-- name: clear_next_owner
SELECT u.id FROM users u
WHERE u.deleted_at IS NOT NULL AND EXISTS (SELECT 1 FROM projects WHERE user_id = u.id) LIMIT 1;

-- name: clear_next_user
SELECT u.id FROM users u
WHERE u.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM conversations WHERE user_id = u.id)
  AND NOT EXISTS (SELECT 1 FROM projects WHERE user_id = u.id)
  AND NOT EXISTS (SELECT 1 FROM attachments WHERE user_id = u.id)
  AND NOT EXISTS (SELECT 1 FROM prompt_blocks WHERE user_id = u.id)
LIMIT 1;

-- name: clear_next_openai
SELECT rowid FROM openai_conversations WHERE deleted_at IS NOT NULL LIMIT 1;

-- name: clear_openai_item
DELETE FROM openai_conversation_items
WHERE rowid = (SELECT i.rowid FROM openai_conversations c JOIN openai_conversation_items i ON i.conversation_id = c.id
               WHERE c.rowid = :id LIMIT 1)
RETURNING length(CAST(item AS BLOB));

-- name: clear_openai
DELETE FROM openai_conversations WHERE rowid = :id AND deleted_at IS NOT NULL;

-- name: clear_user_response
DELETE FROM responses WHERE rowid = (SELECT rowid FROM responses WHERE user_id = :id LIMIT 1)
RETURNING length(CAST(input AS BLOB)) + length(CAST(response AS BLOB));

-- name: clear_user_item
DELETE FROM openai_conversation_items
WHERE rowid = (SELECT i.rowid FROM openai_conversations c JOIN openai_conversation_items i ON i.conversation_id = c.id
               WHERE c.user_id = :id LIMIT 1)
RETURNING length(CAST(item AS BLOB));

-- name: clear_user
DELETE FROM users WHERE id = :id AND deleted_at IS NOT NULL;
