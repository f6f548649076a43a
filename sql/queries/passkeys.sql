-- Passkeys, and the challenges that they sign.

-- The columns of struct store_passkey, in the order in which store_passkeys.c reads them.
-- part: passkey_columns
p.id, p.user_id, p.credential_id, p.algorithm, p.public_key, p.counter, p.transports, p.name, p.created_at, p.used_at

-- name: passkey_add
INSERT INTO webauthn_credentials (user_id, credential_id, algorithm, public_key, counter, transports, name, created_at)
SELECT id, :credential_id, :algorithm, :public_key, :counter, :transports, :name, :now
FROM users WHERE id = :user_id AND deleted_at IS NULL
RETURNING id;

-- name: passkey_list
SELECT @passkey_columns FROM webauthn_credentials p WHERE p.user_id = :user_id ORDER BY p.id;

-- name: passkey_count
SELECT count(*) FROM webauthn_credentials WHERE user_id = :user_id;

-- Whose it is comes out of it: who logs in by it has said no name.
-- name: passkey_find
SELECT @passkey_columns FROM webauthn_credentials p JOIN users u ON u.id = p.user_id
WHERE p.credential_id = :credential_id AND u.disabled = 0 AND u.deleted_at IS NULL;

-- An authenticator that counts only ever counts on: of two uses with one count, and of a copy that lags behind, one is refused.
-- name: passkey_use
UPDATE webauthn_credentials SET counter = :counter, used_at = :now
WHERE id = :id AND user_id = :user_id AND (:counter > counter OR (:counter = 0 AND counter = 0));

-- name: passkey_rename
UPDATE webauthn_credentials SET name = :name WHERE id = :id AND user_id = :user_id;

-- name: passkey_remove
DELETE FROM webauthn_credentials WHERE id = :id AND user_id = :user_id;

-- name: passkey_remove_all
DELETE FROM webauthn_credentials WHERE user_id = :user_id;

-- name: challenge_clear
DELETE FROM webauthn_challenges WHERE expires_at <= :now;

-- name: challenge_add
INSERT OR REPLACE INTO webauthn_challenges (challenge_hash, purpose, asked_by, expires_at)
VALUES (:challenge_hash, :purpose, :asked_by, :expires_at);

-- name: challenge_take
DELETE FROM webauthn_challenges
WHERE challenge_hash = :challenge_hash AND purpose = :purpose AND asked_by = :asked_by AND expires_at > :now;
