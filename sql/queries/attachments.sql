-- name: attachment_add
INSERT INTO attachments (user_id, sha256, name, type, bytes, tokens, model, note, created_at, loose_at, text)
SELECT id, :sha256, :name, :type, :bytes, :tokens, :model, :note, :now, :now, :text
FROM users WHERE id = :user_id AND deleted_at IS NULL
RETURNING id;

-- name: attachment_get
SELECT a.id, a.sha256, a.name, a.type, a.bytes, a.tokens, a.model, a.note, a.created_at, a.loose_at IS NULL
FROM attachments a WHERE a.id = :id AND a.user_id = :user_id;

-- name: attachment_text
SELECT a.name, a.text FROM attachments a WHERE a.id = :id AND a.user_id = :user_id;

-- In the order in which they were attached.
-- name: attachment_texts
SELECT a.name, a.text
FROM message_attachments x JOIN messages m ON m.id = x.message_id
     JOIN conversations c ON c.id = m.conversation_id JOIN attachments a ON a.id = x.attachment_id
WHERE x.message_id = :message_id AND c.user_id = :user_id AND a.user_id = :user_id
ORDER BY x.position;

-- name: attachment_remove
DELETE FROM attachments WHERE id = :id AND user_id = :user_id AND loose_at IS NOT NULL RETURNING sha256;

-- name: attachment_bind
INSERT INTO message_attachments (message_id, position, attachment_id)
SELECT :message_id, :position, id FROM attachments WHERE id = :id AND user_id = :user_id;

-- name: attachment_bound
UPDATE attachments SET loose_at = NULL WHERE id = :id AND user_id = :user_id;

-- A copied message has the same files.
-- name: attachments_fork
INSERT INTO message_attachments (message_id, position, attachment_id)
SELECT :fork_id, x.position, x.attachment_id
FROM message_attachments x JOIN attachments a ON a.id = x.attachment_id
WHERE x.message_id = :id AND a.user_id = :user_id;

-- The recorder's, for all users. A removed user's go at once.
-- name: attachment_next_loose
SELECT a.id FROM attachments a
WHERE a.loose_at IS NOT NULL
  AND (a.loose_at < :before OR EXISTS (SELECT 1 FROM users u WHERE u.id = a.user_id AND u.deleted_at IS NOT NULL))
LIMIT 1;

-- Bound in the meantime: it stays.
-- name: attachment_clear
DELETE FROM attachments WHERE id = :id AND loose_at IS NOT NULL RETURNING sha256;

-- name: attachment_known
SELECT 1 FROM attachments WHERE sha256 = :sha256 LIMIT 1;
