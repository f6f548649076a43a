-- One user's conversations for export, whole, within one snapshot (begin_read). :ids is a JSON array of numbers
-- or NULL; :archived and :trashed are 0, 1 or NULL for both.

-- part: export_filter
(:ids IS NULL OR c.id IN (SELECT value FROM json_each(:ids)))
  AND (:archived IS NULL OR c.archived = :archived)
  AND (:trashed IS NULL OR (c.trashed_at IS NOT NULL) = :trashed)

-- name: export_counts
SELECT count(*), coalesce(sum((SELECT count(*) FROM messages m WHERE m.conversation_id = c.id)), 0)
FROM conversations c
WHERE c.user_id = :user_id AND c.deleted_at IS NULL
  AND @export_filter;

-- fork_of only when the original comes along: else it names nothing that the reader could know.
-- name: export_conversations
SELECT c.id, c.key, c.title, c.settings, c.leaf_id, c.pinned, c.archived, c.created_at, c.updated_at, c.trashed_at,
       (SELECT o.key FROM conversations o
        WHERE o.id = c.fork_of AND o.user_id = :user_id AND o.deleted_at IS NULL
          AND (:ids IS NULL OR o.id IN (SELECT value FROM json_each(:ids)))
          AND (:archived IS NULL OR o.archived = :archived)
          AND (:trashed IS NULL OR (o.trashed_at IS NOT NULL) = :trashed)),
       (SELECT json_group_array(t.tag) FROM conversation_tags t WHERE t.conversation_id = c.id),
       (SELECT json_object('key', p.key, 'name', p.name, 'colour', p.colour, 'instructions', p.instructions, 'files', json((
            SELECT json_group_array(json_object('sha256', f.sha256, 'name', f.name, 'mime', f.type, 'size', f.bytes))
            FROM (SELECT a.sha256, a.name, a.type, a.bytes
                  FROM project_files x JOIN attachments a ON a.id = x.attachment_id AND a.user_id = :user_id
                  WHERE x.project_id = p.id ORDER BY a.id) f)))
        FROM projects p WHERE p.id = c.project_id AND p.user_id = :user_id)
FROM conversations c
WHERE c.user_id = :user_id AND c.deleted_at IS NULL
  AND @export_filter
ORDER BY c.id;

-- name: export_messages
SELECT @message_columns,
       (SELECT json_group_array(json_object('sha256', f.sha256, 'name', f.name, 'mime', f.type, 'size', f.bytes))
        FROM (SELECT a.sha256, a.name, a.type, a.bytes
              FROM message_attachments t JOIN attachments a ON a.id = t.attachment_id AND a.user_id = :user_id
              WHERE t.message_id = m.id ORDER BY t.position) f), NULL
FROM conversations c JOIN messages m ON m.conversation_id = c.id
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL
ORDER BY m.id;

-- Each content once, however many messages and projects have it. Of an export of everything also those of projects without chats.
-- name: export_files
SELECT a.sha256, a.type, a.bytes, min(a.created_at)
FROM (SELECT t.attachment_id AS id FROM conversations c JOIN messages m ON m.conversation_id = c.id
           JOIN message_attachments t ON t.message_id = m.id
      WHERE c.user_id = :user_id AND c.deleted_at IS NULL
        AND @export_filter
      UNION
      SELECT f.attachment_id FROM conversations c JOIN project_files f ON f.project_id = c.project_id
      WHERE c.user_id = :user_id AND c.deleted_at IS NULL
        AND @export_filter
      UNION
      SELECT f.attachment_id FROM projects p JOIN project_files f ON f.project_id = p.id
      WHERE p.user_id = :user_id AND :ids IS NULL AND :archived IS NULL AND :trashed IS NULL) x
     JOIN attachments a ON a.id = x.id AND a.user_id = :user_id
GROUP BY a.sha256 ORDER BY a.sha256;
