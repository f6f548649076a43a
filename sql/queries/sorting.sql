-- Many conversations at once, tags, the trash.

-- Written as in the conversation that was last written in: SQLite takes the other columns from the row of max().
-- name: tag_list
SELECT t.tag, count(*), max(c.updated_at) FROM conversations c CROSS JOIN conversation_tags t ON t.conversation_id = c.id
WHERE c.user_id = :user_id AND c.deleted_at IS NULL AND c.trashed_at IS NULL
GROUP BY t.folded ORDER BY t.folded;

-- name: tag_remove
DELETE FROM conversation_tags
WHERE folded = text_folded(:tag) AND conversation_id = (SELECT id FROM conversations
                                        WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL);

-- name: tag_count
SELECT count(*) FROM conversation_tags
WHERE conversation_id = (SELECT id FROM conversations WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL);

-- name: trash_empty
UPDATE conversations SET deleted_at = :now, leaf_id = NULL
WHERE id IN (SELECT id FROM conversations
             WHERE user_id = :user_id AND trashed_at IS NOT NULL AND deleted_at IS NULL LIMIT :limit);
