-- Invitations, second factors, limits and sessions as their owners and admins see them.

-- name: invite_add
INSERT INTO invites (token_hash, role, note, made_by, created_at, expires_at)
VALUES (:token_hash, :role, :note, :made_by, :now, :expires_at)
RETURNING id;

-- name: invite_open
SELECT role, expires_at, made_by FROM invites
WHERE token_hash = :token_hash AND used_at IS NULL AND revoked_at IS NULL AND expires_at > :now;

-- name: invite_use
UPDATE invites SET used_at = :now
WHERE token_hash = :token_hash AND used_at IS NULL AND revoked_at IS NULL AND expires_at > :now
RETURNING role = 'admin';

-- name: invite_used_by
UPDATE invites SET used_by = :user_id WHERE token_hash = :token_hash;

-- name: invite_list
SELECT i.id, i.role, i.note, i.created_at, i.expires_at, i.used_at, i.revoked_at, coalesce(m.name, ''), coalesce(u.name, ''),
    (SELECT json_group_array(g.name) FROM invite_groups x JOIN user_groups g ON g.id = x.group_id WHERE x.invite_id = i.id)
FROM invites i LEFT JOIN users m ON m.id = i.made_by LEFT JOIN users u ON u.id = i.used_by
WHERE i.id < :before ORDER BY i.id DESC LIMIT :limit;

-- name: invite_count_open
SELECT count(*) FROM invites WHERE used_at IS NULL AND revoked_at IS NULL AND expires_at > :now;

-- name: invite_revoke
UPDATE invites SET revoked_at = :now WHERE id = :id AND used_at IS NULL AND revoked_at IS NULL;

-- Revokes the invitations by which a former admin would still make admins. Their others stay.
-- name: invite_revoke_admins_of
UPDATE invites SET revoked_at = :now
WHERE made_by = :user_id AND role = 'admin' AND used_at IS NULL AND revoked_at IS NULL AND expires_at > :now;

-- name: factor_get
SELECT sealed, confirmed_at, last_step, (SELECT count(*) FROM recovery_codes WHERE user_id = :user_id)
FROM second_factors WHERE user_id = :user_id;

-- Another attempt replaces one that was never confirmed.
-- name: factor_begin
INSERT INTO second_factors (user_id, sealed, created_at)
SELECT id, :sealed, :now FROM users WHERE id = :user_id AND deleted_at IS NULL
ON CONFLICT (user_id) DO UPDATE SET sealed = excluded.sealed, created_at = excluded.created_at, last_step = 0
WHERE confirmed_at IS NULL;

-- name: factor_all
SELECT user_id, sealed FROM second_factors WHERE confirmed_at IS NOT NULL;

-- name: factor_confirm
UPDATE second_factors SET confirmed_at = :now WHERE user_id = :user_id AND confirmed_at IS NULL;

-- name: factor_step
UPDATE second_factors SET last_step = :step WHERE user_id = :user_id AND last_step < :step;

-- name: factor_remove
DELETE FROM second_factors WHERE user_id = :user_id;

-- name: recovery_add
INSERT INTO recovery_codes (user_id, code_hash) VALUES (:user_id, :code_hash);

-- name: recovery_use
DELETE FROM recovery_codes WHERE user_id = :user_id AND code_hash = :code_hash;

-- name: recovery_remove_all
DELETE FROM recovery_codes WHERE user_id = :user_id;

-- name: limits_get
SELECT requests_per_minute, tokens_per_minute, max_jobs, tokens_per_day, storage_bytes
FROM user_limits WHERE user_id = :user_id;

-- name: limits_set
INSERT INTO user_limits (user_id, requests_per_minute, tokens_per_minute, max_jobs, tokens_per_day, storage_bytes)
SELECT id, :requests_per_minute, :tokens_per_minute, :max_jobs, :tokens_per_day, :storage_bytes
FROM users WHERE id = :user_id AND deleted_at IS NULL
ON CONFLICT (user_id) DO UPDATE SET
    requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute,
    max_jobs = excluded.max_jobs, tokens_per_day = excluded.tokens_per_day, storage_bytes = excluded.storage_bytes;

-- name: limits_remove
DELETE FROM user_limits WHERE user_id = :user_id;

-- name: used_today
SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) FROM usage WHERE user_id = :user_id AND day = :day;

-- name: used_bytes
SELECT t.bytes + (SELECT coalesce(sum(a.bytes), 0) FROM attachments a WHERE a.user_id = :user_id)
FROM user_texts t WHERE t.user_id = :user_id;

-- name: running_of_user
SELECT count(*) FROM messages m INDEXED BY messages_running JOIN conversations c ON c.id = m.conversation_id
WHERE m.status = 'running' AND c.user_id = :user_id;

-- The first bytes of the hash name a session to its owner; nobody can make a token or a CSRF token of them.
-- name: session_list
SELECT lower(hex(substr(token_hash, 1, 8))), created_at, used_at, min(expires_at, created_at + @session_longest_ms) AS ends,
    address, agent, token_hash IS :current
FROM sessions WHERE user_id = :user_id AND ends > :now ORDER BY used_at DESC LIMIT 200;

-- name: session_remove_one
DELETE FROM sessions WHERE user_id = :user_id AND lower(hex(substr(token_hash, 1, 8))) = :id;

-- name: user_set_role
UPDATE users SET role = :role WHERE id = :id AND deleted_at IS NULL;

-- name: user_overview
SELECT @user_columns,
    EXISTS (SELECT 1 FROM second_factors f WHERE f.user_id = u.id AND f.confirmed_at IS NOT NULL),
    (SELECT count(*) FROM sessions s WHERE s.user_id = u.id AND min(s.expires_at, s.created_at + @session_longest_ms) > :now),
    (SELECT count(*) FROM api_keys k WHERE k.user_id = u.id),
    max(coalesce((SELECT max(used_at) FROM sessions s WHERE s.user_id = u.id), 0),
        coalesce((SELECT max(used_at) FROM api_keys k WHERE k.user_id = u.id), 0)),
    coalesce((SELECT sum(g.prompt_tokens + g.completion_tokens) FROM usage g WHERE g.user_id = u.id AND g.day = :day), 0),
    (SELECT bytes FROM user_texts t WHERE t.user_id = u.id)
        + (SELECT coalesce(sum(a.bytes), 0) FROM attachments a WHERE a.user_id = u.id),
    l.requests_per_minute, l.tokens_per_minute, l.max_jobs, l.tokens_per_day, l.storage_bytes
FROM users u LEFT JOIN user_limits l ON l.user_id = u.id
WHERE u.deleted_at IS NULL AND u.id > :after AND (:only = 0 OR u.id = :only) ORDER BY u.id LIMIT :limit;

-- name: audit_page
SELECT id, at, user_id, user_name, action, target, address FROM audit
WHERE id < :before AND at >= :since AND at < :until
  AND (:user = '' OR user_name = :user COLLATE NOCASE)
  AND (:action = '' OR action = :action OR substr(action, 1, length(:action) + 1) = :action || '.')
ORDER BY id DESC LIMIT :limit;
