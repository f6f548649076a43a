-- name: response_add
INSERT INTO responses (id, user_id, previous_id, conversation_id, conversation_position, created_at, expires_at, input, response)
VALUES (:id, :user_id, :previous_id, :conversation_id, :conversation_position, :created_at, :expires_at, :input, :response);

-- name: response_get
SELECT previous_id, created_at, expires_at, input, response, conversation_id, conversation_position FROM responses
WHERE id = :id AND user_id = :user_id AND expires_at > :now;

-- name: response_each
SELECT id, previous_id, created_at, expires_at, input, response, conversation_id FROM responses
WHERE user_id = :user_id AND expires_at > :now ORDER BY rowid;

-- name: response_remove
DELETE FROM responses WHERE id = :id AND user_id = :user_id AND expires_at > :now;

-- name: response_any_expired
SELECT 1 FROM responses WHERE expires_at <= :now LIMIT 1;

-- name: response_remove_expired
DELETE FROM responses WHERE id IN (SELECT id FROM responses WHERE expires_at <= :now LIMIT :limit);
