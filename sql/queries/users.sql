-- The columns of struct store_user, in the order in which store_users.c reads them.
-- part: user_columns
u.id, u.name, u.role, u.disabled, u.password, u.settings, u.created_at

-- The columns of struct store_key, in the order in which store_keys.c reads them.
-- part: key_columns
id, user_id, name, prefix, created_at, used_at, scopes, expires_at, requests_per_minute, tokens_per_minute,
    max_jobs, strict_parameters

-- How long after its login a session ends, whatever is done with it: 90 days, in ms.
-- part: session_longest_ms
7776000000

-- name: user_add
INSERT INTO users (name, role, password, created_at) VALUES (:name, :role, :password, :now)
RETURNING id;

-- name: user_count
SELECT count(*) FROM users;

-- name: user_by_name
SELECT @user_columns FROM users u
WHERE u.name = :name AND u.deleted_at IS NULL;

-- name: user_by_id
SELECT @user_columns FROM users u
WHERE u.id = :id AND u.deleted_at IS NULL;

-- name: user_list
SELECT @user_columns FROM users u
WHERE u.deleted_at IS NULL ORDER BY u.id;

-- name: user_set_password
UPDATE users SET password = :password WHERE id = :id AND deleted_at IS NULL;

-- name: user_set_disabled
UPDATE users SET disabled = :disabled WHERE id = :id AND deleted_at IS NULL;

-- The admins besides :id that can log in.
-- name: user_other_admins
SELECT count(*) FROM users
WHERE role = 'admin' AND id <> :id AND disabled = 0 AND deleted_at IS NULL;

-- The name becomes free; the password hash is gone at once.
-- name: user_remove
UPDATE users SET deleted_at = :now, disabled = 1, name = '#' || id, password = '', settings = '{}', preferences = '{}'
WHERE id = :id AND deleted_at IS NULL;

-- name: user_defaults_get
SELECT settings FROM users WHERE id = :user_id AND deleted_at IS NULL;

-- name: user_defaults_set
UPDATE users SET settings = :settings WHERE id = :user_id AND deleted_at IS NULL;

-- name: user_preferences_get
SELECT preferences FROM users WHERE id = :user_id AND deleted_at IS NULL;

-- name: user_preferences_set
UPDATE users SET preferences = :settings WHERE id = :user_id AND deleted_at IS NULL;

-- name: user_remove_conversations
UPDATE conversations SET deleted_at = :now, leaf_id = NULL
WHERE user_id = :id AND deleted_at IS NULL;

-- name: session_add
INSERT INTO sessions (token_hash, user_id, created_at, used_at, expires_at, address, agent, confirmed_at)
VALUES (:token_hash, :user_id, :created_at, :created_at, :expires_at, :address, :agent, :created_at);

-- name: session_find
SELECT @user_columns, s.used_at, min(s.expires_at, s.created_at + @session_longest_ms)
FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = :token_hash AND min(s.expires_at, s.created_at + @session_longest_ms) > :now AND u.disabled = 0 AND u.deleted_at IS NULL;

-- name: session_used
UPDATE sessions SET used_at = :now, expires_at = min(:expires_at, created_at + @session_longest_ms)
WHERE token_hash = :token_hash
RETURNING expires_at;

-- name: session_confirm
UPDATE sessions SET confirmed_at = :now WHERE token_hash = :token_hash;

-- After :now the clock was set back: nobody knows how long ago it was.
-- name: session_is_confirmed
SELECT 1 FROM sessions WHERE token_hash = :token_hash AND confirmed_at BETWEEN :since AND :now;

-- name: session_use_confirmation
UPDATE sessions SET confirmed_at = 0 WHERE token_hash = :token_hash AND confirmed_at BETWEEN :since AND :now;

-- name: session_remove
DELETE FROM sessions WHERE token_hash = :token_hash;

-- name: session_remove_others
DELETE FROM sessions WHERE user_id = :user_id AND token_hash IS NOT :keep;

-- name: session_remove_expired
DELETE FROM sessions WHERE expires_at <= :now;

-- name: session_any_expired
SELECT 1 FROM sessions WHERE expires_at <= :now LIMIT 1;

-- name: key_add
INSERT INTO api_keys (user_id, key_hash, name, prefix, created_at, scopes, expires_at, requests_per_minute,
    tokens_per_minute, max_jobs, strict_parameters)
SELECT id, :key_hash, :name, :prefix, :now, :scopes, :expires_at, :requests_per_minute, :tokens_per_minute, :max_jobs,
    :strict_parameters
FROM users WHERE id = :user_id AND deleted_at IS NULL
RETURNING id;

-- name: key_find
SELECT @user_columns, k.id, k.used_at,
    k.scopes, k.expires_at, k.requests_per_minute, k.tokens_per_minute, k.max_jobs, k.strict_parameters
FROM api_keys k JOIN users u ON u.id = k.user_id
WHERE k.key_hash = :key_hash AND u.disabled = 0 AND u.deleted_at IS NULL;

-- name: key_used
UPDATE api_keys SET used_at = :now WHERE id = :id;

-- name: key_change
UPDATE api_keys SET scopes = :scopes, expires_at = :expires_at, requests_per_minute = :requests_per_minute,
    tokens_per_minute = :tokens_per_minute, max_jobs = :max_jobs, strict_parameters = :strict_parameters
WHERE id = :id AND user_id = :user_id;

-- name: key_get
SELECT @key_columns FROM api_keys WHERE id = :id AND user_id = :user_id;

-- name: key_list
SELECT @key_columns FROM api_keys
WHERE user_id = :user_id ORDER BY id;

-- name: key_count
SELECT count(*) FROM api_keys WHERE user_id = :user_id;

-- name: key_remove
DELETE FROM api_keys WHERE id = :id AND user_id = :user_id;

-- name: key_remove_all
DELETE FROM api_keys WHERE user_id = :user_id;
