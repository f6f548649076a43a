-- The columns of struct store_conversation, in the order in which store_conversations.c reads them.
-- part: conversation_columns
c.id, c.user_id, c.title, c.settings, c.leaf_id, c.created_at, c.updated_at,
       EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = c.id AND m.status = 'running'),
       c.pinned, c.archived, c.trashed_at, c.fork_of,
       (SELECT json_group_array(t.tag) FROM conversation_tags t WHERE t.conversation_id = c.id), @chat_project

-- Its project while its user may read that: a chat whose project is shared no more is in none.
-- part: chat_project
CASE WHEN c.project_id IN (SELECT mine.project_id FROM project_access mine WHERE mine.user_id = :user_id) THEN c.project_id END

-- Whether a list shows a conversation. :tags is a JSON array of folded tags, all of which it must have, or NULL.
-- :project is a project's id, 0 for conversations in none, or NULL.
-- part: conversation_filter
(:project IS NULL OR CASE :project WHEN 0 THEN c.project_id IS NULL OR @chat_project IS NULL ELSE c.project_id IS :project END) AND
(:pinned IS NULL OR c.pinned = :pinned) AND (:archived IS NULL OR c.archived = :archived)
  AND (c.trashed_at IS NOT NULL) = :trashed
  AND (:tags IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(:tags) WHERE json_each.value NOT IN (
           SELECT t.folded FROM conversation_tags t WHERE t.conversation_id = c.id)))

-- The columns of struct store_message, in the order in which store_messages.c reads them; attachments follow.
-- part: message_columns
m.id, m.conversation_id, m.parent_id, m.role, m.status, m.content, m.reasoning, m.tool_calls,
       m.tool_call_id, m.error, m.model, m.job_key, m.parser, m.timings, m.prompt_tokens, m.cached_tokens,
       m.completion_tokens, m.created_at, m.finished_at, m.error_detail, m.sources

-- Of an answer with calls those that were run and are no messages yet. What outlived its time was lost with its process.
-- part: message_runs
(SELECT json_group_array(json_object('call_id', r.call_id, 'server', r.server, 'tool', r.tool, 'result', r.result,
            'state', CASE WHEN r.state = 'running' AND r.ends_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
                          THEN 'lost' ELSE r.state END,
            'began_at', r.began_at, 'ends_at', r.ends_at))
        FROM tool_runs r WHERE r.message_id = m.id AND m.tool_calls IS NOT NULL)

-- Attachments come in the order of message_attachments' key; CROSS JOIN keeps it the outer loop.
-- part: message_attachments
(SELECT json_group_array(json_object('id', CAST(a.id AS TEXT), 'name', a.name, 'type', a.type, 'bytes', a.bytes,
                                            'sha256', a.sha256, 'tokens', a.tokens, 'model', a.model, 'note', a.note))
        FROM message_attachments x CROSS JOIN attachments a ON a.id = x.attachment_id WHERE x.message_id = m.id)

-- name: conversation_add
INSERT INTO conversations (user_id, key, title, settings, project_id, created_at, updated_at)
SELECT id, lower(hex(randomblob(16))), :title, :settings,
       (SELECT p.id FROM projects p WHERE p.id = :project AND @project_readable), :now, :now FROM users WHERE id = :user_id AND deleted_at IS NULL
RETURNING id;

-- name: conversation_get
SELECT @conversation_columns
FROM conversations c
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: conversation_list
SELECT @conversation_columns
FROM conversations c
WHERE c.user_id = :user_id AND c.deleted_at IS NULL
  AND (c.updated_at, c.id) < (:before_updated, :before_id) AND c.updated_at >= :from
  AND @conversation_filter
ORDER BY c.updated_at DESC, c.id DESC
LIMIT :limit;

-- The page above a row, which is turned round so that it too has the newest first.
-- name: conversation_list_above
SELECT * FROM (
SELECT @conversation_columns
FROM conversations c
WHERE c.user_id = :user_id AND c.deleted_at IS NULL
  AND (c.updated_at, c.id) > (:after_updated, :after_id) AND c.updated_at >= :from AND c.updated_at < :to
  AND @conversation_filter
ORDER BY c.updated_at, c.id
LIMIT :limit)
ORDER BY updated_at DESC, id DESC;

-- text_has() compares with what is searched, which the connection knows (store_search.c), letter case aside in any script;
-- text_has_within() does so until it has read its share. :terms are the three-letter pieces for the index, or NULL: then the
-- messages are read. What the index finds is compared as well. The newest message with the text comes along; where none has
-- it, the newest file with it in its name or text, of that conversation's messages. Who has no files is not asked for them.
-- name: conversation_search
SELECT @conversation_columns,
       coalesce(h.id, (SELECT max(x.message_id) FROM message_attachments x JOIN messages m ON m.id = x.message_id
                       WHERE x.attachment_id = a.id AND m.conversation_id = c.id)),
       h.content, a.id, a.name, a.text
FROM conversations c
LEFT JOIN messages h ON h.id = (
    SELECT m.id FROM messages m
    WHERE m.conversation_id = c.id AND m.status <> 'running' AND text_has(m.content)
    ORDER BY m.id DESC LIMIT 1)
LEFT JOIN attachments a ON a.id = CASE WHEN h.id IS NULL AND EXISTS (SELECT 1 FROM attachments WHERE user_id = :user_id) THEN (
    SELECT b.id FROM messages m CROSS JOIN message_attachments x ON x.message_id = m.id
                                CROSS JOIN attachments b ON b.id = x.attachment_id
    WHERE m.conversation_id = c.id AND b.user_id = :user_id AND (text_has(b.name) OR text_has(b.text))
    ORDER BY m.id DESC LIMIT 1) END
WHERE c.user_id = :user_id AND c.deleted_at IS NULL
  AND (c.updated_at, c.id) < (:before_updated, :before_id) AND c.updated_at >= :from
  AND @conversation_filter
  AND (text_has(c.title)
       OR CASE WHEN :terms IS NULL
               THEN EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = c.id AND m.status <> 'running'
                              AND text_has_within(m.content))
                    OR (EXISTS (SELECT 1 FROM attachments WHERE user_id = :user_id)
                        AND EXISTS (SELECT 1 FROM messages m CROSS JOIN message_attachments x ON x.message_id = m.id
                                                             CROSS JOIN attachments b ON b.id = x.attachment_id
                                    WHERE m.conversation_id = c.id AND b.user_id = :user_id
                                      AND (text_has_within(b.name) OR text_has_within(b.text))))
               ELSE c.id IN (SELECT m.conversation_id
                             FROM message_search f CROSS JOIN messages m ON m.id = f.rowid
                             WHERE f.message_search MATCH :terms
                               AND m.conversation_id IN (SELECT id FROM conversations
                                                         WHERE user_id = :user_id AND deleted_at IS NULL)
                               AND text_has(m.content))
                    OR c.id IN (SELECT m.conversation_id FROM messages m
                                WHERE m.id IN (SELECT p.message_id FROM part_search f CROSS JOIN search_parts p ON p.id = f.rowid
                                               WHERE f.part_search MATCH :terms AND p.user_id = :user_id)
                                  AND text_has(m.content))
                    OR c.id IN (SELECT m.conversation_id
                                FROM attachments b CROSS JOIN message_attachments x ON x.attachment_id = b.id
                                     CROSS JOIN messages m ON m.id = x.message_id
                                WHERE b.id IN (SELECT p.attachment_id FROM part_search f CROSS JOIN search_parts p ON p.id = f.rowid
                                               WHERE f.part_search MATCH :terms AND p.user_id = :user_id)
                                  AND b.user_id = :user_id AND (text_has(b.name) OR text_has(b.text)))
                    OR c.id IN (SELECT m.conversation_id
                                FROM attachment_search f CROSS JOIN attachments b ON b.id = f.rowid
                                     CROSS JOIN message_attachments x ON x.attachment_id = b.id
                                     CROSS JOIN messages m ON m.id = x.message_id
                                WHERE f.attachment_search MATCH :terms AND b.user_id = :user_id
                                  AND (text_has(b.name) OR text_has(b.text)))
          END)
ORDER BY c.updated_at DESC, c.id DESC
LIMIT :limit;

-- Absent values keep what is there. Nothing here moves a conversation up in the list.
-- name: conversation_change
UPDATE conversations
SET title = coalesce(:title, title), settings = coalesce(:settings, settings),
    leaf_id = coalesce(:leaf_id, leaf_id),
    project_id = CASE WHEN :project IS NULL THEN project_id
                      ELSE (SELECT p.id FROM projects p WHERE p.id = :project AND @project_readable) END,
    pinned = coalesce(:pinned, pinned), archived = coalesce(:archived, archived),
    trashed_at = CASE :trashed WHEN 1 THEN coalesce(trashed_at, :now) WHEN 0 THEN NULL ELSE trashed_at END
WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- A conversation that is written in comes back from the trash. An answer beside others to :question leaves the branch that is shown
-- where that goes through another answer to it.
-- name: conversation_posted
UPDATE conversations
SET leaf_id = CASE WHEN :question IN (
        WITH RECURSIVE above(id) AS (
            SELECT m.parent_id FROM messages m WHERE m.id = conversations.leaf_id
            UNION ALL SELECT m.parent_id FROM above CROSS JOIN messages m ON m.id = above.id WHERE above.id > :question)
        SELECT id FROM above) THEN leaf_id ELSE :leaf_id END,
    trashed_at = NULL, updated_at = max(:now, updated_at),
    title = CASE WHEN title = '' THEN coalesce(:title, '') ELSE title END
WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- name: tags_clear
DELETE FROM conversation_tags
WHERE conversation_id = (SELECT id FROM conversations
                         WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL);

-- name: tag_add
INSERT OR IGNORE INTO conversation_tags (conversation_id, folded, tag)
SELECT id, text_folded(:tag), :tag FROM conversations WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- name: conversation_remove
UPDATE conversations SET deleted_at = :now, leaf_id = NULL
WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- name: message_get
SELECT @message_columns, @message_attachments, @message_runs
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: message_list
SELECT @message_columns, @message_attachments, @message_runs
FROM conversations c JOIN messages m ON m.conversation_id = c.id
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL AND m.id > :after
ORDER BY m.id LIMIT :limit;

-- name: message_running
SELECT @message_columns, @message_attachments, @message_runs
FROM conversations c JOIN messages m ON m.conversation_id = c.id
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL
  AND m.status = 'running'
ORDER BY m.id;

-- Up from the leaf, then in the order in which they were written: the ids alone are sorted, so that no more than one message is
-- in memory. Without its LIMIT the inner ORDER BY would be left out.
-- name: message_branch
WITH RECURSIVE branch (id, parent_id) AS (
    SELECT m.id, m.parent_id FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.id = :leaf_id AND c.id = :conversation_id AND c.user_id = :user_id
      AND c.deleted_at IS NULL
    UNION ALL
    SELECT p.id, p.parent_id FROM messages p JOIN branch b ON p.id = b.parent_id
    WHERE p.conversation_id = :conversation_id
    LIMIT :limit
)
SELECT @message_columns, @message_attachments, @message_runs
FROM (SELECT id FROM branch ORDER BY id LIMIT -1) b CROSS JOIN messages m ON m.id = b.id;

-- The places of the messages without any text: status is the last column before the texts, so these are never read.
-- name: message_places
SELECT m.id, m.parent_id, m.role, m.status FROM conversations c JOIN messages m ON m.conversation_id = c.id
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL
ORDER BY m.id;

-- name: message_parent
SELECT m.role, m.status, EXISTS (SELECT 1 FROM messages x WHERE x.conversation_id = m.conversation_id AND x.parent_id = m.id)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: message_add_user
INSERT INTO messages (conversation_id, parent_id, role, status, content, created_at, finished_at)
SELECT c.id, :parent_id, 'user', 'done', :content, :now, :now FROM conversations c
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL
RETURNING id;

-- name: message_add_result
INSERT INTO messages (conversation_id, parent_id, role, status, content, tool_call_id, timings, created_at, finished_at)
SELECT c.id, :parent_id, 'tool', 'done', :content, :tool_call_id, :timings, :now, :now FROM conversations c
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL
RETURNING id;

-- name: message_add_answer
INSERT INTO messages (conversation_id, parent_id, role, status, model, job_key, parser, sources, created_at)
SELECT c.id, :parent_id, 'assistant', 'running', :model, :job_key, :parser, :sources, :now
FROM conversations c
WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NULL
RETURNING id;

-- name: message_fail
UPDATE messages SET status = 'error', error = :error, error_detail = :error_detail, finished_at = :now
WHERE id = :id AND status = 'running'
  AND conversation_id IN (SELECT id FROM conversations WHERE user_id = :user_id);

-- name: message_status
SELECT m.status FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- The tokens that made an answer's text; nothing when the row's text is no longer theirs.
-- name: unfinished_get
SELECT f.tokens FROM unfinished f JOIN messages m ON m.id = f.message_id JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL
  AND f.text_bytes = length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
                     + coalesce(length(CAST(m.tool_calls AS BLOB)), 0);

-- name: unfinished_begin
INSERT OR REPLACE INTO unfinished (message_id, tokens, text_bytes)
SELECT m.id, :tokens, length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
                      + coalesce(length(CAST(m.tool_calls AS BLOB)), 0)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- The last message of its branch only: what follows was written after the text as it is. Nor while a link shows it: that
-- shows the text as it was.
-- name: message_continue
UPDATE messages
SET status = 'running', model = :model, job_key = :job_key, parser = :parser, error = NULL, error_detail = NULL, timings = NULL,
    prompt_tokens = NULL, cached_tokens = NULL, completion_tokens = NULL, finished_at = NULL
WHERE id = :id AND role = 'assistant' AND status IN ('stopped', 'length', 'error')
  AND conversation_id = (SELECT id FROM conversations
                         WHERE id = :conversation_id AND user_id = :user_id AND deleted_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM messages k WHERE k.conversation_id = :conversation_id AND k.parent_id = :id)
  AND NOT EXISTS (SELECT 1 FROM shares s WHERE s.conversation_id = :conversation_id AND s.leaf_id = :id
                    AND (s.expires_at IS NULL OR s.expires_at > :now));

-- name: own_title
INSERT OR IGNORE INTO own_titles (conversation_id)
SELECT id FROM conversations WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL;

-- A title made by the model takes the place of the one that it was made from, and of no other.
-- name: conversation_retitle
UPDATE conversations SET title = :title
WHERE id = :id AND user_id = :user_id AND deleted_at IS NULL AND title = :old
  AND NOT EXISTS (SELECT 1 FROM own_titles WHERE conversation_id = :id);

-- name: own_title_get
SELECT t.conversation_id FROM own_titles t JOIN conversations c ON c.id = t.conversation_id
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: conversation_state
SELECT (SELECT count(*) FROM messages m WHERE m.conversation_id = c.id),
       (SELECT json_group_array(CAST(m.id AS TEXT)) FROM messages m INDEXED BY messages_running
        WHERE m.conversation_id = c.id AND m.status = 'running')
FROM conversations c
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: conversation_newest
SELECT updated_at FROM conversations WHERE user_id = :user_id AND deleted_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT 1;
