-- Groups of users, and what a group carries for its members.

-- The columns of struct store_group, in the order in which store_groups.c reads them.
-- part: group_columns
g.id, g.name, g.description, g.claim, g.created_at,
    (SELECT count(*) FROM group_members m JOIN users u ON u.id = m.user_id AND u.deleted_at IS NULL WHERE m.group_id = g.id),
    (SELECT json_group_array(x.model_id) FROM model_groups x WHERE x.group_id = g.id),
    (SELECT json_group_array(CAST(x.server_id AS TEXT)) FROM tool_server_groups x WHERE x.group_id = g.id),
    g.requests_per_minute, g.tokens_per_minute, g.max_jobs, g.tokens_per_day, g.storage_bytes

-- name: group_list
SELECT @group_columns FROM user_groups g ORDER BY g.name;

-- name: group_get
SELECT @group_columns FROM user_groups g WHERE g.id = :id;

-- name: group_by_name
SELECT id FROM user_groups WHERE name = :name;

-- name: groups_of_user
SELECT @group_columns FROM group_members x JOIN user_groups g ON g.id = x.group_id WHERE x.user_id = :user_id ORDER BY g.name;

-- No row: there are as many as may be.
-- name: group_add
INSERT INTO user_groups (name, created_at) SELECT :name, :now WHERE (SELECT count(*) FROM user_groups) < :most RETURNING id;

-- Limits: all five or none of them; -1 becomes NULL.
-- name: group_change
UPDATE user_groups SET name = coalesce(:name, name), description = coalesce(:description, description),
    claim = coalesce(:claim, claim),
    requests_per_minute = CASE WHEN :limits THEN nullif(:requests_per_minute, -1) ELSE requests_per_minute END,
    tokens_per_minute = CASE WHEN :limits THEN nullif(:tokens_per_minute, -1) ELSE tokens_per_minute END,
    max_jobs = CASE WHEN :limits THEN nullif(:max_jobs, -1) ELSE max_jobs END,
    tokens_per_day = CASE WHEN :limits THEN nullif(:tokens_per_day, -1) ELSE tokens_per_day END,
    storage_bytes = CASE WHEN :limits THEN nullif(:storage_bytes, -1) ELSE storage_bytes END
WHERE id = :id;

-- name: group_remove
DELETE FROM user_groups WHERE id = :id;

-- What counts where the user has no row in user_limits (store_limits.c).
-- name: limits_of_groups
SELECT g.id, g.requests_per_minute, g.tokens_per_minute, g.max_jobs, g.tokens_per_day, g.storage_bytes
FROM group_members x JOIN user_groups g ON g.id = x.group_id WHERE x.user_id = :user_id ORDER BY g.name;

-- name: group_members
SELECT u.id, u.name, m.provider FROM group_members m JOIN users u ON u.id = m.user_id AND u.deleted_at IS NULL
WHERE m.group_id = :id AND u.id > :after ORDER BY u.id LIMIT :limit;

-- By hand: stays whatever the provider says. Nothing changes for one who is in it by hand already.
-- name: group_member_add
INSERT INTO group_members (group_id, user_id, provider)
SELECT g.id, u.id, 0 FROM user_groups g JOIN users u ON u.id = :user_id AND u.deleted_at IS NULL WHERE g.id = :id
ON CONFLICT (group_id, user_id) DO UPDATE SET provider = 0 WHERE provider = 1;

-- name: group_member_remove
DELETE FROM group_members WHERE group_id = :id AND user_id = :user_id;

-- name: group_user_there
SELECT 1 FROM users WHERE id = :user_id AND deleted_at IS NULL;

-- What the sign-in provider says: :names is a JSON array of texts.
-- name: group_claim_drop
DELETE FROM group_members
WHERE user_id = :user_id AND provider = 1 AND NOT EXISTS (
    SELECT 1 FROM user_groups g JOIN json_each(:names)
    WHERE g.id = group_members.group_id AND json_each.value = CASE g.claim WHEN '' THEN g.name ELSE g.claim END)
RETURNING group_id;

-- name: group_claim_add
INSERT INTO group_members (group_id, user_id, provider)
SELECT g.id, :user_id, 1 FROM user_groups g
WHERE EXISTS (SELECT 1 FROM json_each(:names) WHERE json_each.value = CASE g.claim WHEN '' THEN g.name ELSE g.claim END)
ON CONFLICT (group_id, user_id) DO NOTHING
RETURNING group_id;

-- They are the word of one provider in one claim: a change of the setting that names either ends them all.
-- name: group_claims_end
DELETE FROM group_members WHERE provider = 1 AND (SELECT value FROM settings WHERE name = :name) IS NOT :value;

-- name: user_leave_groups
DELETE FROM group_members WHERE user_id = :user_id;

-- name: model_group_clear
DELETE FROM model_groups WHERE model_id = :id;

-- name: model_group_clear_of
DELETE FROM model_groups WHERE group_id = :id;

-- name: model_group_add
INSERT INTO model_groups (model_id, group_id)
SELECT m.id, g.id FROM models m JOIN user_groups g ON g.id = :group_id WHERE m.id = :model_id;

-- name: tool_group_clear
DELETE FROM tool_server_groups WHERE server_id = :id;

-- name: tool_group_clear_of
DELETE FROM tool_server_groups WHERE group_id = :id;

-- Of a user's own server there are no groups.
-- name: tool_group_add
INSERT INTO tool_server_groups (server_id, group_id)
SELECT t.id, g.id FROM tool_servers t JOIN user_groups g ON g.id = :group_id WHERE t.id = :server_id AND t.user_id IS NULL;

-- name: tool_server_open
UPDATE tool_servers SET everyone = :everyone WHERE id = :id AND user_id IS NULL;

-- name: invite_group_add
INSERT INTO invite_groups (invite_id, group_id) SELECT :id, id FROM user_groups WHERE id = :group_id;

-- name: invite_groups_use
INSERT INTO group_members (group_id, user_id, provider)
SELECT x.group_id, :user_id, 0 FROM invites i JOIN invite_groups x ON x.invite_id = i.id WHERE i.token_hash = :token_hash
ON CONFLICT DO NOTHING;

-- name: user_leave_shares
DELETE FROM project_shares WHERE user_id = :user_id;
