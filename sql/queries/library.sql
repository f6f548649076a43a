-- name: library_list
SELECT id, name, body, created_at, updated_at FROM library
WHERE user_id = :user_id AND kind = :kind ORDER BY name;

-- name: library_add
INSERT INTO library (user_id, kind, name, body, created_at, updated_at)
SELECT u.id, :kind, :name, :body, :now, :now FROM users u
WHERE u.id = :user_id AND u.deleted_at IS NULL
  AND (SELECT count(*) FROM library WHERE user_id = :user_id AND kind = :kind) < :most
RETURNING id;

-- name: library_change
UPDATE library SET name = coalesce(:name, name), body = coalesce(:body, body), updated_at = :now
WHERE id = :id AND user_id = :user_id AND kind = :kind;

-- name: library_remove
DELETE FROM library WHERE id = :id AND user_id = :user_id AND kind = :kind;

-- name: library_get
SELECT id, name, body, created_at, updated_at FROM library
WHERE id = :id AND user_id = :user_id AND kind = :kind;

-- name: library_named
SELECT id FROM library WHERE user_id = :user_id AND kind = :kind AND name = :name;
