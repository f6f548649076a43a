-- Conversations that come from files, with their own times.

-- name: import_known
SELECT count(*) FROM conversations WHERE user_id = :user_id AND key = :key AND deleted_at IS NULL;

-- Begins as building_internal.h says.
-- name: import_conversation
INSERT INTO conversations (user_id, key, title, settings, pinned, archived, fork_of, project_id, created_at, updated_at, trashed_at, deleted_at)
SELECT u.id, :key, :title, :settings, :pinned, :archived,
       (SELECT o.id FROM conversations o WHERE o.user_id = u.id AND o.key = :fork_of AND o.deleted_at IS NULL),
       (SELECT p.id FROM projects p WHERE p.user_id = u.id AND p.key = :project),
       :created_at, :updated_at, :trashed_at, :until
FROM users u WHERE u.id = :user_id AND u.deleted_at IS NULL
RETURNING id;

-- name: import_message
INSERT INTO messages (conversation_id, parent_id, role, status, content, reasoning, tool_calls, tool_call_id, error, model,
                      timings, prompt_tokens, cached_tokens, completion_tokens, created_at, finished_at, sources)
SELECT c.id, :parent_id, :role, :status, :content, :reasoning, :tool_calls, :tool_call_id, :error, :model,
       :timings, :prompt_tokens, :cached_tokens, :completion_tokens, :created_at, :finished_at, :sources
FROM conversations c WHERE c.id = :conversation_id AND c.user_id = :user_id AND c.deleted_at IS NOT NULL
RETURNING id;

-- The user's file with this content, best one with this name, else one that came with the import and has none yet.
-- name: import_file
SELECT id, name = :name, loose_at IS NOT NULL AND name = :nameless AS fresh
FROM attachments WHERE sha256 = :sha256 AND user_id = :user_id
ORDER BY name = :name DESC, fresh DESC, id LIMIT 1;

-- name: import_file_name
UPDATE attachments SET name = :name WHERE id = :id AND user_id = :user_id AND loose_at IS NOT NULL;

-- The same file by another name; loose until a message or a project has it.
-- name: import_file_copy
INSERT INTO attachments (user_id, sha256, name, type, bytes, tokens, model, note, created_at, loose_at, text)
SELECT user_id, sha256, :name, type, bytes, tokens, model, note, :now, :now, text FROM attachments
WHERE id = :id AND user_id = :user_id
RETURNING id;

-- No row changes: there is another with this key.
-- name: import_project_key
UPDATE OR IGNORE projects SET key = :key WHERE id = :id AND user_id = :user_id;

-- Changes nothing, and yet writes a page: see store_import_sync.
-- name: import_touch
UPDATE users SET settings = settings WHERE id = :user_id;
