-- Projects, their files, and the passages of these.

-- The columns of struct store_project, in the order in which store_projects.c reads them.
-- part: project_columns
p.id, p.key, p.name, p.colour, p.instructions, p.created_at, p.updated_at,
       (SELECT count(*) FROM conversations c WHERE c.project_id = p.id AND c.deleted_at IS NULL AND c.trashed_at IS NULL),
       (SELECT count(*) FROM project_files f WHERE f.project_id = p.id),
       EXISTS (SELECT 1 FROM project_files f JOIN file_chunks k ON k.attachment_id = f.attachment_id
               WHERE f.project_id = p.id AND k.state = 'waiting')

-- name: project_list
SELECT @project_columns FROM projects p WHERE p.user_id = :user_id ORDER BY p.name COLLATE NOCASE, p.id;

-- name: project_get
SELECT @project_columns FROM projects p WHERE p.id = :id AND p.user_id = :user_id;

-- name: project_own
SELECT 1 FROM projects WHERE id = :id AND user_id = :user_id;

-- name: project_of_chat
SELECT @project_columns FROM conversations c JOIN projects p ON p.id = c.project_id
WHERE c.id = :id AND c.user_id = :user_id AND p.user_id = :user_id AND c.deleted_at IS NULL;

-- name: project_by_key
SELECT id FROM projects WHERE key = :key AND user_id = :user_id;

-- No row: the user is gone, or has as many as may be.
-- name: project_add
INSERT INTO projects (user_id, key, name, colour, instructions, created_at, updated_at)
SELECT u.id, coalesce(:key, lower(hex(randomblob(16)))), :name, :colour, :instructions, :now, :now FROM users u
WHERE u.id = :user_id AND u.deleted_at IS NULL AND (SELECT count(*) FROM projects WHERE user_id = u.id) < :most
RETURNING id;

-- name: project_change
UPDATE projects SET name = coalesce(:name, name), colour = coalesce(:colour, colour),
    instructions = coalesce(:instructions, instructions), updated_at = :now
WHERE id = :id AND user_id = :user_id;

-- Some of its chats leave it, where :trash is 1 into the trash.
-- name: project_release
UPDATE conversations SET project_id = NULL,
    trashed_at = CASE WHEN :trash AND deleted_at IS NULL THEN coalesce(trashed_at, :now) ELSE trashed_at END
WHERE id IN (SELECT id FROM conversations WHERE project_id = :id AND user_id = :user_id LIMIT :limit);

-- Its files go with it.
-- name: project_remove
DELETE FROM projects WHERE id = :id AND user_id = :user_id;

-- name: user_remove_projects
DELETE FROM projects WHERE user_id = :id;

-- The chunks of a text are all of it, so their sizes are its size.
-- name: project_files
SELECT a.id, a.name, a.type, a.bytes, a.sha256, a.tokens, a.model, a.note,
       (SELECT coalesce(sum(k.bytes), 0) FROM file_chunks k WHERE k.attachment_id = a.id),
       (SELECT count(*) FROM file_chunks k WHERE k.attachment_id = a.id),
       EXISTS (SELECT 1 FROM file_chunks k WHERE k.attachment_id = a.id AND k.state = 'waiting')
FROM projects p JOIN project_files f ON f.project_id = p.id JOIN attachments a ON a.id = f.attachment_id
WHERE p.id = :id AND p.user_id = :user_id AND a.user_id = :user_id
ORDER BY a.id;

-- How many files, and bytes of their text, a project has.
-- name: project_holds
SELECT count(*), coalesce(sum((SELECT sum(k.bytes) FROM file_chunks k WHERE k.attachment_id = f.attachment_id)), 0)
FROM project_files f JOIN projects p ON p.id = f.project_id WHERE p.id = :id AND p.user_id = :user_id;

-- name: project_file_add
INSERT INTO project_files (project_id, attachment_id)
SELECT p.id, a.id FROM projects p JOIN attachments a ON a.id = :attachment_id AND a.user_id = :user_id
WHERE p.id = :id AND p.user_id = :user_id;

-- name: project_file_there
SELECT 1 FROM project_files f JOIN projects p ON p.id = f.project_id
WHERE f.project_id = :id AND f.attachment_id = :attachment_id AND p.user_id = :user_id;

-- name: project_file_remove
DELETE FROM project_files
WHERE attachment_id = :attachment_id AND project_id = (SELECT id FROM projects WHERE id = :id AND user_id = :user_id);

-- name: chunk_add
INSERT INTO file_chunks (attachment_id, start, bytes) VALUES (:attachment_id, :start, :bytes)
ON CONFLICT (attachment_id, start) DO NOTHING;

-- chunk_counts() says how often each term stands there (search_chunks.c).
-- name: chunk_find
SELECT k.id, k.attachment_id, k.start, k.bytes, chunk_counts(chunk_search)
FROM chunk_search CROSS JOIN file_chunks k ON k.id = chunk_search.rowid
WHERE chunk_search MATCH :terms
  AND k.attachment_id IN (SELECT f.attachment_id FROM project_files f JOIN projects p ON p.id = f.project_id
                          WHERE p.id = :id AND p.user_id = :user_id);

-- The recorder's, for all users: passages that wait for the index.
-- name: chunk_next_file
SELECT attachment_id FROM file_chunks WHERE state = 'waiting' ORDER BY attachment_id LIMIT 1;

-- name: chunk_waiting
SELECT id, start, bytes FROM file_chunks WHERE attachment_id = :id AND state = 'waiting' ORDER BY id LIMIT :limit;

-- name: chunk_some
SELECT id, start, bytes, state = 'indexed' FROM file_chunks WHERE attachment_id = :id LIMIT :limit;

-- name: chunk_mark
UPDATE file_chunks SET state = 'indexed' WHERE id = :id;

-- name: chunk_text
SELECT text, 'u' || user_id FROM attachments WHERE id = :id;

-- name: chunk_index
INSERT INTO chunk_search (rowid, owner, text) VALUES (:id, :owner, :text);

-- name: chunk_unindex
INSERT INTO chunk_search (chunk_search, rowid, owner, text) VALUES ('delete', :id, :owner, :text);

-- name: chunk_remove
DELETE FROM file_chunks WHERE id = :id;

-- As for the other indexes in search.sql. One of little text is emptied, and filled again
-- with all passages, those that wait for it included: so these count, too.
-- name: search_merge_chunks
INSERT INTO chunk_search (chunk_search, rank) VALUES ('merge', :pages);

-- name: search_small_chunks
SELECT count(*) FROM (SELECT 1 FROM chunk_search_data LIMIT :limit);

-- name: search_sizes_chunks
SELECT bytes FROM file_chunks;

-- name: search_empty_chunks
INSERT INTO chunk_search (chunk_search) VALUES ('delete-all');

-- name: search_fill_chunks
UPDATE file_chunks SET state = 'waiting';

-- name: fts5_api
SELECT fts5(:api);
