-- Accounts at an OpenID provider, and sign-ins that are under way there.

-- name: oidc_find
SELECT @user_columns FROM oidc_identities o JOIN users u ON u.id = o.user_id
WHERE o.issuer = :issuer AND o.subject = :subject AND u.deleted_at IS NULL;

-- name: oidc_link
INSERT INTO oidc_identities (issuer, subject, user_id, label, created_at, used_at)
SELECT :issuer, :subject, id, :label, :now, :now FROM users WHERE id = :user_id AND deleted_at IS NULL;

-- name: oidc_used
UPDATE oidc_identities SET used_at = :now WHERE issuer = :issuer AND subject = :subject;

-- name: oidc_list
SELECT issuer, label, created_at, used_at FROM oidc_identities WHERE user_id = :user_id ORDER BY issuer;

-- name: oidc_unlink
DELETE FROM oidc_identities WHERE user_id = :user_id AND issuer = :issuer;

-- name: oidc_unlink_all
DELETE FROM oidc_identities WHERE user_id = :user_id;

-- name: oidc_flow_expire
DELETE FROM oidc_flows WHERE expires_at <= :now;

-- name: oidc_flow_count
SELECT count(*) FROM oidc_flows WHERE expires_at > :now;

-- name: oidc_flow_add
INSERT INTO oidc_flows (state_hash, browser_hash, session_hash, expires_at)
VALUES (:state_hash, :browser_hash, :session_hash, :expires_at);

-- Each is taken once, and by its own browser only.
-- name: oidc_flow_take
DELETE FROM oidc_flows WHERE state_hash = :state_hash AND browser_hash = :browser_hash AND expires_at > :now
RETURNING session_hash;
