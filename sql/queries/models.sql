-- Models that other servers or further engines of this one answer, and these servers.

-- name: upstream_add
INSERT INTO upstreams (name, dialect, url, max_streams, first_byte_ms, idle_ms, created_at)
VALUES (:name, :dialect, :url, :max_streams, :first_byte_ms, :idle_ms, :now) RETURNING id;

-- name: upstream_set_key
UPDATE upstreams SET key = :key WHERE id = :id;

-- name: upstream_change
UPDATE upstreams SET drained = coalesce(:drained, drained), max_streams = coalesce(:max_streams, max_streams),
    first_byte_ms = coalesce(:first_byte_ms, first_byte_ms), idle_ms = coalesce(:idle_ms, idle_ms)
WHERE id = :id;

-- name: upstream_remove
DELETE FROM upstreams WHERE id = :id;

-- name: upstream_list
SELECT id, name, dialect, url, key, drained, max_streams, first_byte_ms, idle_ms, created_at FROM upstreams ORDER BY name;

-- name: upstream_key
SELECT key FROM upstreams WHERE id = :id;

-- name: model_add
INSERT INTO models (name, kind, context, tools, vision, reasoning, everyone, created_at)
VALUES (:name, :kind, :context, :tools, :vision, :reasoning, :everyone, :now) RETURNING id;

-- name: model_change
UPDATE models SET context = coalesce(:context, context), tools = coalesce(:tools, tools), vision = coalesce(:vision, vision),
    reasoning = coalesce(:reasoning, reasoning), everyone = coalesce(:everyone, everyone)
WHERE id = :id;

-- name: model_remove
DELETE FROM models WHERE id = :id;

-- Of a user who may use it; NULL: anyone's.
-- part: model_allowed
(:user_id IS NULL OR m.everyone OR EXISTS (SELECT 1 FROM users u WHERE u.id = :user_id AND u.role = 'admin')
    OR EXISTS (SELECT 1 FROM model_users x WHERE x.model_id = m.id AND x.user_id = :user_id)
    OR EXISTS (SELECT 1 FROM model_groups x JOIN group_members y ON y.group_id = x.group_id
               WHERE x.model_id = m.id AND y.user_id = :user_id))

-- part: model_columns
m.id, m.name, m.kind, m.context, m.tools, m.vision, m.reasoning, m.everyone, m.created_at,
    (SELECT json_group_array(alias) FROM (SELECT alias FROM model_aliases a WHERE a.model_id = m.id ORDER BY alias)),
    l.path, l.pinned, l.preload, l.idle_s, l.defaults,
    (SELECT json_group_array(CAST(x.group_id AS TEXT)) FROM model_groups x WHERE x.model_id = m.id), l.device

-- name: model_find
SELECT @model_columns FROM models m LEFT JOIN local_models l ON l.model_id = m.id
WHERE m.id = coalesce((SELECT id FROM models WHERE name = :name), (SELECT model_id FROM model_aliases WHERE alias = :name))
    AND @model_allowed;

-- name: model_list
SELECT @model_columns FROM models m LEFT JOIN local_models l ON l.model_id = m.id WHERE @model_allowed ORDER BY m.name;

-- name: local_model_add
INSERT INTO local_models (model_id, path, pinned, preload, idle_s, defaults, device)
VALUES (:model_id, :path, :pinned, :preload, :idle_s, :defaults, :device);

-- name: local_model_count
SELECT count(*) FROM local_models;

-- name: local_model_change
UPDATE local_models SET pinned = coalesce(:pinned, pinned), preload = coalesce(:preload, preload), idle_s = coalesce(:idle_s, idle_s),
    defaults = CASE WHEN :defaults = '' THEN NULL ELSE coalesce(:defaults, defaults) END,
    device = CASE WHEN :device = '' THEN NULL ELSE coalesce(:device, device) END
WHERE model_id = :model_id;

-- name: model_alias_clear
DELETE FROM model_aliases WHERE model_id = :model_id;

-- name: model_alias_add
INSERT INTO model_aliases (alias, model_id) VALUES (:alias, :model_id);

-- A model of this machine has no upstreams.
-- name: model_route_set
INSERT INTO model_upstreams (model_id, upstream_id, remote, priority, weight)
SELECT :model_id, :upstream_id, :remote, :priority, :weight
WHERE NOT EXISTS (SELECT 1 FROM local_models WHERE model_id = :model_id)
ON CONFLICT (model_id, upstream_id) DO UPDATE SET remote = excluded.remote, priority = excluded.priority,
    weight = excluded.weight;

-- name: model_route_remove
DELETE FROM model_upstreams WHERE model_id = :model_id AND upstream_id = :upstream_id;

-- name: model_route_list
SELECT r.model_id, r.upstream_id, r.remote, r.priority, r.weight, m.name, u.name FROM model_upstreams r
JOIN models m ON m.id = r.model_id JOIN upstreams u ON u.id = r.upstream_id ORDER BY m.name, r.priority, u.name;

-- name: model_user_clear
DELETE FROM model_users WHERE model_id = :model_id;

-- name: model_user_add
INSERT INTO model_users (model_id, user_id) SELECT :model_id, id FROM users WHERE id = :user_id AND deleted_at IS NULL;

-- name: model_user_list
SELECT user_id FROM model_users WHERE model_id = :model_id ORDER BY user_id;
