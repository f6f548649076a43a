-- name: openai_conversation_add
INSERT INTO openai_conversations (id, user_id, created_at, metadata, bytes)
VALUES (:id, :user_id, :created_at, :metadata, length(CAST(:metadata AS BLOB)));

-- name: openai_conversation_get
SELECT created_at, metadata, last_position, bytes FROM openai_conversations
WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- name: openai_conversation_each
SELECT id, created_at, metadata, last_position FROM openai_conversations
WHERE user_id = :user_id AND deleted_at IS NULL ORDER BY created_at, id;

-- name: openai_conversation_change
UPDATE openai_conversations
SET metadata = :metadata,
    bytes = bytes - length(CAST(metadata AS BLOB)) + length(CAST(:metadata AS BLOB))
WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- name: openai_conversation_remove
UPDATE openai_conversations SET deleted_at = :now WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- An id that the conversation has already changes nothing.
-- name: openai_item_add
INSERT INTO openai_conversation_items (conversation_id, position, id, item)
SELECT c.id, c.last_position + 1, :item_id, :item FROM openai_conversations c
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL
ON CONFLICT (conversation_id, id) DO NOTHING;

-- name: openai_item_get
SELECT i.position, i.item
FROM openai_conversations c JOIN openai_conversation_items i ON i.conversation_id = c.id
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL AND i.id = :item_id;

-- name: openai_item_remove
DELETE FROM openai_conversation_items
WHERE id = :item_id AND conversation_id =
    (SELECT c.id FROM openai_conversations c WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL);

-- name: openai_items_forward
SELECT i.id, i.position, i.item
FROM openai_conversations c JOIN openai_conversation_items i ON i.conversation_id = c.id
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL AND i.position > :from AND i.position <= :until
ORDER BY i.position LIMIT :limit;

-- name: openai_items_back
SELECT i.id, i.position, i.item
FROM openai_conversations c JOIN openai_conversation_items i ON i.conversation_id = c.id
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL AND i.position > :from AND i.position <= :until
ORDER BY i.position DESC LIMIT :limit;
