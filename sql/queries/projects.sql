-- Projects, their files, and the passages of these.

-- The columns of struct store_project, in the order in which store_projects.c reads them.
-- part: project_columns
p.id, p.key, p.name, p.colour, p.instructions, p.created_at, p.updated_at,
       (SELECT count(*) FROM conversations c
        WHERE c.project_id = p.id AND c.user_id = :user_id AND c.deleted_at IS NULL AND c.trashed_at IS NULL),
       (SELECT count(*) FROM project_files f WHERE f.project_id = p.id),
       EXISTS (SELECT 1 FROM project_files f JOIN file_chunks k ON k.attachment_id = f.attachment_id
               WHERE f.project_id = p.id AND k.state = 'waiting'),
       p.user_id, (SELECT u.name FROM users u WHERE u.id = p.user_id),
       @project_access_level,
       (SELECT count(*) FROM project_shares s WHERE s.project_id = p.id)

-- The one rule of who may use a project (schema.sql: project_access), and who may change what is in it. The subquery is the list of
-- all that the user may use, made once in a statement: a correlated one would read the view for each row.
-- part: project_readable
p.id IN (SELECT mine.project_id FROM project_access mine WHERE mine.user_id = :user_id)

-- part: project_editable
p.id IN (SELECT mine.project_id FROM project_access mine WHERE mine.user_id = :user_id AND mine.access >= 1)

-- part: project_access_level
CASE WHEN p.user_id = :user_id THEN 2 WHEN @project_editable THEN 1 ELSE 0 END

-- name: project_list
SELECT @project_columns FROM projects p
WHERE @project_readable ORDER BY p.name COLLATE NOCASE, p.id;

-- name: project_get
SELECT @project_columns FROM projects p WHERE p.id = :id AND @project_readable;

-- name: project_access_of
SELECT @project_access_level FROM projects p WHERE p.id = :id AND @project_readable;

-- name: project_owner
SELECT p.user_id FROM projects p WHERE p.id = :id AND @project_editable;

-- The index of passages has an owner's entries together.
-- name: project_owner_read
SELECT p.user_id FROM projects p WHERE p.id = :id AND @project_readable;

-- name: project_there
SELECT 1 FROM projects p WHERE p.id = :id AND @project_readable;

-- name: project_of_chat
SELECT @project_columns FROM conversations c JOIN projects p ON p.id = c.project_id
WHERE c.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL AND @project_readable;

-- name: project_by_key
SELECT id FROM projects WHERE key = :key AND user_id = :user_id;

-- No row: the user is gone, or has as many as may be.
-- name: project_add
INSERT INTO projects (user_id, key, name, colour, instructions, created_at, updated_at)
SELECT u.id, coalesce(:key, lower(hex(randomblob(16)))), :name, :colour, :instructions, :now, :now FROM users u
WHERE u.id = :user_id AND u.deleted_at IS NULL AND (SELECT count(*) FROM projects WHERE user_id = u.id) < :most
RETURNING id;

-- name: project_change
UPDATE projects AS p SET name = coalesce(:name, name), colour = coalesce(:colour, colour),
    instructions = coalesce(:instructions, instructions), updated_at = :now
WHERE p.id = :id AND @project_editable;

-- Some of its chats leave it, where :trash is 1 the owner's into the trash. Those of others are only theirs.
-- name: project_release
UPDATE conversations SET project_id = NULL,
    trashed_at = CASE WHEN :trash AND user_id = :user_id AND deleted_at IS NULL THEN coalesce(trashed_at, :now) ELSE trashed_at END
WHERE id IN (SELECT c.id FROM projects p JOIN conversations c ON c.project_id = p.id
             WHERE p.id = :id AND p.user_id = :user_id LIMIT :limit);

-- Its files go with it.
-- name: project_remove
DELETE FROM projects WHERE id = :id AND user_id = :user_id;

-- Nobody but the user can reach the user's projects from then on.
-- name: user_end_shares
DELETE FROM project_shares WHERE project_id IN (SELECT id FROM projects WHERE user_id = :id);

-- Some of the chats of a user's projects leave them, whosever they are.
-- name: user_release_projects
UPDATE conversations SET project_id = NULL
WHERE id IN (SELECT c.id FROM projects p JOIN conversations c ON c.project_id = p.id WHERE p.user_id = :id LIMIT :limit);

-- name: user_remove_projects
DELETE FROM projects WHERE user_id = :id;

-- The chunks of a text are all of it, so their sizes are its size.
-- name: project_files
SELECT a.id, a.name, a.type, a.bytes, a.sha256, a.tokens, a.model, a.note,
       (SELECT coalesce(sum(k.bytes), 0) FROM file_chunks k WHERE k.attachment_id = a.id),
       (SELECT count(*) FROM file_chunks k WHERE k.attachment_id = a.id),
       EXISTS (SELECT 1 FROM file_chunks k WHERE k.attachment_id = a.id AND k.state = 'waiting')
FROM projects p JOIN project_files f ON f.project_id = p.id JOIN attachments a ON a.id = f.attachment_id
WHERE p.id = :id AND a.user_id = p.user_id AND @project_readable
ORDER BY a.id;

-- How many files, and bytes of their text, a project has.
-- name: project_holds
SELECT count(*), coalesce(sum((SELECT sum(k.bytes) FROM file_chunks k WHERE k.attachment_id = f.attachment_id)), 0)
FROM project_files f JOIN projects p ON p.id = f.project_id WHERE p.id = :id AND @project_editable;

-- name: project_file_add
INSERT INTO project_files (project_id, attachment_id)
SELECT p.id, a.id FROM projects p JOIN attachments a ON a.id = :attachment_id AND a.user_id = p.user_id
WHERE p.id = :id AND @project_editable;

-- name: project_file_there
SELECT 1 FROM project_files f JOIN projects p ON p.id = f.project_id
WHERE f.project_id = :id AND f.attachment_id = :attachment_id AND @project_editable;

-- name: project_file_remove
DELETE FROM project_files
WHERE attachment_id = :attachment_id AND project_id = (SELECT p.id FROM projects p WHERE p.id = :id AND @project_editable);

-- The project's file with this content and name; of an editor's upload, which becomes the owner's.
-- name: project_file_same
SELECT o.id FROM attachments a JOIN projects p ON p.id = :id
    JOIN project_files f ON f.project_id = p.id
    JOIN attachments o ON o.id = f.attachment_id AND o.sha256 = a.sha256 AND o.name = a.name
WHERE a.id = :attachment_id AND a.user_id = :user_id AND @project_editable;

-- name: project_file_copy
INSERT INTO attachments (user_id, sha256, name, type, bytes, tokens, model, note, created_at, loose_at, text)
SELECT p.user_id, a.sha256, a.name, a.type, a.bytes, a.tokens, a.model, a.note, :now, :now, a.text
FROM attachments a JOIN projects p ON p.id = :id
WHERE a.id = :attachment_id AND a.user_id = :user_id AND @project_editable
RETURNING id;

-- Whose attachment it is, for those who may read it: its owner, and whoever may read a project that has it.
-- name: attachment_owner
SELECT a.user_id FROM attachments a
WHERE a.id = :id AND (a.user_id = :user_id OR EXISTS (
    SELECT 1 FROM project_files f JOIN projects p ON p.id = f.project_id WHERE f.attachment_id = a.id AND @project_readable));

-- Whom a project is shared with, as its owner sees it.
-- name: project_share_list
SELECT s.id, s.user_id, s.group_id, coalesce(u.name, g.name), s.editor,
       (SELECT count(*) FROM group_members m WHERE m.group_id = s.group_id), s.created_at
FROM projects p JOIN project_shares s ON s.project_id = p.id
    LEFT JOIN users u ON u.id = s.user_id LEFT JOIN user_groups g ON g.id = s.group_id
WHERE p.id = :id AND p.user_id = :user_id AND u.deleted_at IS NULL ORDER BY s.id;

-- name: project_share_count
SELECT count(*) FROM project_shares s JOIN projects p ON p.id = s.project_id WHERE p.id = :id AND p.user_id = :user_id;

-- name: project_share_user
INSERT INTO project_shares (project_id, user_id, editor, created_at)
SELECT p.id, u.id, :editor, :now FROM projects p JOIN users u ON u.id = :with AND u.deleted_at IS NULL
WHERE p.id = :id AND p.user_id = :user_id
ON CONFLICT (project_id, user_id) DO UPDATE SET editor = excluded.editor;

-- name: project_share_group
INSERT INTO project_shares (project_id, group_id, editor, created_at)
SELECT p.id, g.id, :editor, :now FROM projects p JOIN user_groups g ON g.id = :with
WHERE p.id = :id AND p.user_id = :user_id
  AND (EXISTS (SELECT 1 FROM group_members m WHERE m.group_id = g.id AND m.user_id = :user_id)
       OR EXISTS (SELECT 1 FROM users u WHERE u.id = :user_id AND u.role = 'admin'))
ON CONFLICT (project_id, group_id) DO UPDATE SET editor = excluded.editor;

-- name: project_share_remove
DELETE FROM project_shares
WHERE id = :share AND project_id = (SELECT p.id FROM projects p WHERE p.id = :id AND p.user_id = :user_id);

-- Whoever shares with a user by name has them back.
-- name: project_come_back
DELETE FROM project_leaves
WHERE user_id = :with AND project_id = (SELECT p.id FROM projects p WHERE p.id = :id AND p.user_id = :user_id);

-- name: project_leave_share
DELETE FROM project_shares WHERE project_id = :id AND user_id = :user_id;

-- Of what groups share; nobody leaves what is their own.
-- name: project_leave
INSERT INTO project_leaves (project_id, user_id)
SELECT p.id, :user_id FROM projects p WHERE p.id = :id AND p.user_id <> :user_id AND @project_readable
ON CONFLICT DO NOTHING;

-- name: chunk_add
INSERT INTO file_chunks (attachment_id, start, bytes) VALUES (:attachment_id, :start, :bytes)
ON CONFLICT (attachment_id, start) DO NOTHING;

-- chunk_counts() says how often each term stands there (search_chunks.c).
-- name: chunk_find
SELECT k.id, k.attachment_id, k.start, k.bytes, chunk_counts(chunk_search)
FROM chunk_search CROSS JOIN file_chunks k ON k.id = chunk_search.rowid
WHERE chunk_search MATCH :terms
  AND k.attachment_id IN (SELECT f.attachment_id FROM project_files f JOIN projects p ON p.id = f.project_id
                          WHERE p.id = :id AND @project_readable);

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

-- The recorder's, for all users: passages without a vector of this model, those of one file side by side.
-- name: vector_next
SELECT k.id, k.attachment_id, k.start, k.bytes FROM file_chunks k
WHERE k.id > :after AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = k.id AND v.model = :model)
ORDER BY k.id LIMIT :limit;

-- Ids only grow: read before vector_next, it is how far there is nothing left where that finds none.
-- name: vector_last
SELECT ifnull(max(id), 0) FROM file_chunks;

-- name: vector_put
INSERT OR REPLACE INTO chunk_vectors (chunk_id, model, vector)
SELECT id, :model, :vector FROM file_chunks WHERE id = :id;

-- name: vector_near
SELECT k.attachment_id, k.start, k.bytes, v.vector
FROM projects p JOIN project_files f ON f.project_id = p.id JOIN file_chunks k ON k.attachment_id = f.attachment_id
JOIN chunk_vectors v ON v.chunk_id = k.id
WHERE p.id = :id AND @project_readable AND v.model = :model LIMIT :most;

-- name: vectors_waiting
SELECT count(*) FROM projects p JOIN project_files f ON f.project_id = p.id JOIN file_chunks k ON k.attachment_id = f.attachment_id
WHERE p.id = :id AND @project_readable
  AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = k.id AND v.model = :model);

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
