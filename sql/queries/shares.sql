-- The columns of struct store_share, in the order in which store_shares.c reads them.
-- part: share_columns
s.id, s.conversation_id, s.leaf_id, s.title, s.created_at, s.expires_at, s.files

-- Read-only links to conversations.

-- name: share_add
INSERT INTO shares (token_hash, user_id, conversation_id, leaf_id, title, created_at, expires_at, files)
SELECT :token_hash, c.user_id, c.id, m.id, c.title, :now, :expires_at, :files
FROM conversations c JOIN messages m ON m.conversation_id = c.id
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL AND c.trashed_at IS NULL
  AND m.id = :leaf_id AND m.status <> 'running'
RETURNING id;

-- name: share_count
SELECT count(*) FROM shares WHERE conversation_id = :conversation_id AND user_id = :user_id;

-- conversation_id NULL: of all conversations. Newest first.
-- name: share_list
SELECT @share_columns
FROM shares s JOIN conversations c ON c.id = s.conversation_id
WHERE s.user_id = :user_id AND c.deleted_at IS NULL AND (:conversation_id IS NULL OR c.id = :conversation_id)
  AND (s.expires_at IS NULL OR s.expires_at > :now)
ORDER BY s.id DESC LIMIT :limit;

-- name: share_remove
DELETE FROM shares WHERE id = :id AND user_id = :user_id;

-- Whoever has the token may read; the owner's id then reads the branch.
-- name: share_find
SELECT @share_columns, s.user_id
FROM shares s JOIN conversations c ON c.id = s.conversation_id JOIN users u ON u.id = s.user_id
WHERE s.token_hash = :token_hash AND (s.expires_at IS NULL OR s.expires_at > :now)
  AND c.deleted_at IS NULL AND c.trashed_at IS NULL AND u.deleted_at IS NULL AND u.disabled = 0;

-- A file of the branch that a link shows, by its content: :user_id, :conversation_id and :leaf_id are the link's.
-- name: share_file
WITH RECURSIVE branch (id, parent_id) AS (
    SELECT m.id, m.parent_id FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.id = :leaf_id AND c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL
    UNION ALL
    SELECT p.id, p.parent_id FROM messages p JOIN branch b ON p.id = b.parent_id
    WHERE p.conversation_id = :conversation_id
)
SELECT a.id FROM attachments a
WHERE a.sha256 = :sha256 AND a.user_id = :user_id
  AND EXISTS (SELECT 1 FROM message_attachments x WHERE x.attachment_id = a.id AND x.message_id IN (SELECT id FROM branch))
ORDER BY a.id LIMIT 1;

-- name: share_any_expired
SELECT 1 FROM shares WHERE expires_at <= :now LIMIT 1;

-- name: share_remove_expired
DELETE FROM shares WHERE expires_at <= :now;
