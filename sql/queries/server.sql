-- name: setting_get
SELECT value FROM settings WHERE name = :name;

-- name: setting_set
INSERT INTO settings (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: setting_unset
DELETE FROM settings WHERE name = :name;

-- name: setting_list
SELECT name, value FROM settings;

-- name: usage_add
INSERT INTO usage (user_id, day, key_id, requests, prompt_tokens, cached_tokens, completion_tokens)
SELECT id, :day, :key_id, :requests, :prompt_tokens, :cached_tokens, :completion_tokens
FROM users WHERE id = :user_id
ON CONFLICT (user_id, day, key_id) DO UPDATE SET
    requests = requests + excluded.requests,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens;

-- name: usage_list
SELECT user_id, day, key_id, requests, prompt_tokens, cached_tokens, completion_tokens FROM usage
WHERE user_id = :user_id AND day >= :day ORDER BY day, key_id;

-- name: usage_list_all
SELECT user_id, day, key_id, requests, prompt_tokens, cached_tokens, completion_tokens FROM usage
WHERE day >= :day ORDER BY day, user_id, key_id;

-- name: usage_days
SELECT user_id, day, 0, sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens) FROM usage
WHERE user_id = :user_id AND day >= :day GROUP BY user_id, day ORDER BY user_id, day;

-- name: usage_days_all
SELECT user_id, day, 0, sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens) FROM usage
WHERE day >= :day GROUP BY user_id, day ORDER BY user_id, day;

-- name: audit_add
INSERT INTO audit (at, user_id, user_name, action, target, address)
VALUES (:now, :user_id, :user_name, :action, :target, :address);

-- name: audit_after
SELECT id, at, user_id, user_name, action, target, address FROM audit
WHERE id > :after ORDER BY id LIMIT :limit;

-- name: audit_any_before
SELECT 1 FROM audit WHERE at < :before LIMIT 1;

-- name: audit_remove_before
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < :before ORDER BY at LIMIT :limit);
