-- part: tool_server_columns
t.id, t.user_id, t.name, t.url, t.header, t.sealed, t.enabled, t.tools, t.listed_at, t.created_at,
       (SELECT json_group_array(p.tool) FROM tool_permissions p WHERE p.server_id = t.id AND p.user_id = :user_id),
       t.everyone, (SELECT json_group_array(CAST(x.group_id AS TEXT)) FROM tool_server_groups x WHERE x.server_id = t.id),
       (SELECT CASE WHEN o.typed THEN o.client_id ELSE '' END FROM tool_oauth o WHERE o.server_id = t.id),
       (SELECT o.sealed IS NOT NULL AND o.typed FROM tool_oauth o WHERE o.server_id = t.id),
       (SELECT i.about FROM tool_sign_ins i WHERE i.server_id = t.id AND i.user_id = :user_id),
       (SELECT i.wanted FROM tool_sign_ins i WHERE i.server_id = t.id AND i.user_id = :user_id)

-- The user's own, and of the admins' those for everyone or for a group of the user's.
-- part: tool_server_seen
(t.user_id = :user_id OR (t.user_id IS NULL AND (t.everyone
    OR EXISTS (SELECT 1 FROM users u WHERE u.id = :user_id AND u.role = 'admin')
    OR EXISTS (SELECT 1 FROM tool_server_groups x JOIN group_members y ON y.group_id = x.group_id
               WHERE x.server_id = t.id AND y.user_id = :user_id))))

-- name: tool_server_list
SELECT @tool_server_columns FROM tool_servers t
WHERE @tool_server_seen ORDER BY t.name, t.id;

-- name: tool_server_get
SELECT @tool_server_columns FROM tool_servers t
WHERE t.id = :id AND @tool_server_seen;

-- One that the user sees no more, but where they are signed in still.
-- name: tool_server_signed
SELECT @tool_server_columns FROM tool_servers t
WHERE t.id = :id AND EXISTS (SELECT 1 FROM tool_sign_ins y WHERE y.server_id = t.id AND y.user_id = :user_id);

-- One name is one server for whoever sees it: everyone's collides with all, a user's with their own and everyone's.
-- name: tool_server_named
SELECT count(*) FROM tool_servers
WHERE name = :name AND id <> :id AND (:user_id IS NULL OR user_id IS NULL OR user_id = :user_id);

-- name: tool_server_add
INSERT INTO tool_servers (user_id, name, url, header, sealed, tools, listed_at, created_at)
SELECT :user_id, :name, :url, :header, :sealed, :tools, :listed_at, :now
WHERE (SELECT count(*) FROM tool_servers WHERE user_id IS :user_id) < :most
  AND (:user_id IS NULL OR EXISTS (SELECT 1 FROM users u WHERE u.id = :user_id AND u.deleted_at IS NULL))
RETURNING id;

-- name: tool_server_change
UPDATE tool_servers SET name = :name, url = :url, header = :header, sealed = :sealed, enabled = :enabled, tools = :tools,
    listed_at = :listed_at
WHERE id = :id AND user_id IS :user_id AND name = :was_name AND url = :was_url AND header = :was_header AND sealed IS :was_sealed
  AND enabled = :was_enabled AND listed_at = :was_listed_at;

-- name: tool_server_relist
UPDATE tool_servers SET tools = :tools, listed_at = :listed_at
WHERE id = :id AND user_id IS :user_id AND name = :name AND url = :url AND header = :header;

-- name: tool_server_remove
DELETE FROM tool_servers WHERE id = :id AND user_id IS :user_id;

-- name: tool_permissions_keep
DELETE FROM tool_permissions
WHERE server_id = :id AND NOT EXISTS (SELECT 1 FROM tool_servers t, json_each(t.tools)
                                      WHERE t.id = :id AND json_extract(json_each.value, '$.name') = tool_permissions.tool
                                        AND json_extract(json_each.value, '$.hash') = tool_permissions.definition);

-- name: tool_permission_add
INSERT OR REPLACE INTO tool_permissions (user_id, server_id, tool, definition, created_at)
SELECT :user_id, t.id, :tool, :definition, :now FROM tool_servers t
WHERE t.id = :id AND @tool_server_seen;

-- name: tool_permission_find
SELECT definition FROM tool_permissions WHERE user_id = :user_id AND server_id = :id AND tool = :tool;

-- All of a server's where :tool is NULL.
-- name: tool_permission_remove
DELETE FROM tool_permissions WHERE user_id = :user_id AND server_id = :id AND (:tool IS NULL OR tool = :tool);

-- name: tool_oauth_get
SELECT typed, client_id, sealed, issuer, redirect_uri, secret_expires_at FROM tool_oauth WHERE server_id = :id;

-- Over whatever there is; or only over :was_client_id, which nobody entered.
-- name: tool_oauth_put
INSERT OR REPLACE INTO tool_oauth (server_id, typed, client_id, sealed, issuer, redirect_uri, secret_expires_at)
SELECT t.id, :typed, :client_id, :sealed, :issuer, :redirect_uri, :secret_expires_at FROM tool_servers t
WHERE t.id = :id AND t.url = :url
  AND (:was_client_id IS NULL OR EXISTS (SELECT 1 FROM tool_oauth o WHERE o.server_id = t.id AND o.typed = 0
                                           AND o.client_id = :was_client_id AND o.issuer = :was_issuer));

-- name: tool_oauth_bind
UPDATE tool_oauth SET issuer = :issuer
WHERE server_id = :id AND typed AND client_id = :client_id AND issuer IN ('', :issuer)
  AND EXISTS (SELECT 1 FROM tool_servers t WHERE t.id = :id AND t.url = :url);

-- name: tool_oauth_remove
DELETE FROM tool_oauth WHERE server_id = :id;

-- name: tool_sign_ins_forget
DELETE FROM tool_sign_ins WHERE server_id = :id;

-- name: tool_flows_forget
DELETE FROM tool_flows WHERE server_id = :id;

-- name: user_remove_tool_sign_ins
DELETE FROM tool_sign_ins WHERE user_id = :id;

-- name: tool_sign_in_get
SELECT about, sealed, expires_at, version, wanted FROM tool_sign_ins WHERE server_id = :id AND user_id = :user_id;

-- Only at the address for which the tokens were made, and where somebody signs in at all.
-- name: tool_sign_in_put
INSERT INTO tool_sign_ins (user_id, server_id, about, sealed, expires_at, created_at)
SELECT u.id, t.id, :about, :sealed, :expires_at, :now
FROM tool_servers t JOIN tool_oauth o ON o.server_id = t.id JOIN users u ON u.id = :user_id AND u.deleted_at IS NULL
WHERE t.id = :id AND t.url = :url AND @tool_server_seen
ON CONFLICT (user_id, server_id) DO UPDATE
SET about = excluded.about, sealed = excluded.sealed, expires_at = excluded.expires_at, version = tool_sign_ins.version + 1,
    refreshing_until = 0, wanted = '', created_at = excluded.created_at;

-- name: tool_sign_in_claim
UPDATE tool_sign_ins SET refreshing_until = :until
WHERE server_id = :id AND user_id = :user_id AND version = :version AND refreshing_until < :now;

-- name: tool_sign_in_release
UPDATE tool_sign_ins SET refreshing_until = 0
WHERE server_id = :id AND user_id = :user_id AND version = :version AND refreshing_until = :until;

-- name: tool_sign_in_renew
UPDATE tool_sign_ins SET sealed = :sealed, about = :about, expires_at = :expires_at, version = version + 1, refreshing_until = 0
WHERE server_id = :id AND user_id = :user_id AND version = :version
  AND EXISTS (SELECT 1 FROM tool_servers t WHERE t.id = :id AND t.url = :url);

-- name: tool_sign_in_want
UPDATE tool_sign_ins SET wanted = :wanted WHERE server_id = :id AND user_id = :user_id;

-- name: tool_sign_in_remove
DELETE FROM tool_sign_ins WHERE server_id = :id AND user_id = :user_id AND (:version = 0 OR version = :version);

-- Of all who see their server no more (@tool_server_seen of each row's user): a right was taken away.
-- name: tool_sign_ins_unseen
DELETE FROM tool_sign_ins WHERE NOT EXISTS (
    SELECT 1 FROM tool_servers t
    WHERE t.id = tool_sign_ins.server_id AND (t.user_id = tool_sign_ins.user_id OR (t.user_id IS NULL AND (t.everyone
        OR EXISTS (SELECT 1 FROM users u WHERE u.id = tool_sign_ins.user_id AND u.role = 'admin')
        OR EXISTS (SELECT 1 FROM tool_server_groups x JOIN group_members y ON y.group_id = x.group_id
                   WHERE x.server_id = t.id AND y.user_id = tool_sign_ins.user_id)))));

-- name: tool_flow_expire
DELETE FROM tool_flows WHERE expires_at <= :now;

-- The oldest of the session's: a place for one more.
-- name: tool_flow_trim
DELETE FROM tool_flows WHERE state_hash IN
    (SELECT state_hash FROM tool_flows WHERE session_hash = :session_hash ORDER BY expires_at DESC LIMIT -1 OFFSET :most);

-- name: tool_flow_add
INSERT INTO tool_flows (state_hash, browser_hash, session_hash, server_id, about, expires_at)
SELECT :state_hash, :browser_hash, :session_hash, t.id, :about, :expires_at FROM tool_servers t
WHERE t.id = :id AND (SELECT count(*) FROM tool_flows) < :most;

-- Each is taken once, and by its own browser only.
-- name: tool_flow_take
DELETE FROM tool_flows WHERE state_hash = :state_hash AND browser_hash = :browser_hash AND expires_at > :now
RETURNING session_hash, server_id, about;

-- The call did not run after all: its server wants a sign-in first.
-- name: tool_run_withdraw
DELETE FROM tool_runs
WHERE message_id = :id AND call_id = :call_id AND state = 'running' AND began_at = :began_at
  AND EXISTS (SELECT 1 FROM messages m JOIN conversations c ON c.id = m.conversation_id
              WHERE m.id = :id AND c.user_id = :user_id);

-- Nothing where it runs already, where it ended or was lost and nobody says :again, where its result is a message by now, or where
-- the message is not the user's. A refusal takes the place of no result.
-- name: tool_run_begin
INSERT INTO tool_runs (message_id, call_id, server, tool, state, result, began_at, ends_at)
SELECT m.id, :call_id, :server, :tool, :state, :result, :now, :ends_at
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM messages x WHERE x.conversation_id = m.conversation_id AND x.parent_id = m.id AND x.role = 'tool')
ON CONFLICT (message_id, call_id) DO UPDATE
SET server = excluded.server, tool = excluded.tool, state = excluded.state, result = excluded.result,
    began_at = excluded.began_at, ends_at = excluded.ends_at
WHERE :again AND CASE tool_runs.state WHEN 'running' THEN tool_runs.ends_at < :now ELSE excluded.state <> 'refused' END;

-- name: tool_run_goes
SELECT count(*) FROM tool_runs r JOIN messages m ON m.id = r.message_id JOIN conversations c ON c.id = m.conversation_id
WHERE r.message_id = :id AND r.call_id = :call_id AND r.state = 'running' AND r.ends_at >= :now AND c.user_id = :user_id;

-- name: tool_run_end
UPDATE tool_runs SET state = :state, result = :result, ends_at = :now
WHERE message_id = :id AND call_id = :call_id AND state = 'running' AND began_at = :began_at
  AND EXISTS (SELECT 1 FROM messages m JOIN conversations c ON c.id = m.conversation_id
              WHERE m.id = :id AND c.user_id = :user_id);

-- name: tool_run_stop
UPDATE tool_runs SET state = 'stopped', result = :result, ends_at = :now
WHERE message_id = :id AND call_id = :call_id AND state = 'running'
  AND EXISTS (SELECT 1 FROM messages m JOIN conversations c ON c.id = m.conversation_id
              WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL);

-- name: tool_run_runs
SELECT count(*) FROM tool_runs r JOIN messages m ON m.id = r.message_id JOIN conversations c ON c.id = m.conversation_id
WHERE r.message_id = :id AND r.call_id = :call_id AND r.state = 'running' AND r.began_at = :began_at AND c.user_id = :user_id
  AND c.deleted_at IS NULL;

-- name: tool_run_get
SELECT r.call_id, r.server, r.tool, r.state, r.result, r.began_at, r.ends_at
FROM tool_runs r JOIN messages m ON m.id = r.message_id JOIN conversations c ON c.id = m.conversation_id
WHERE r.message_id = :id AND r.call_id = :call_id AND c.user_id = :user_id AND c.deleted_at IS NULL;

-- name: tool_runs_clear
DELETE FROM tool_runs WHERE message_id = :id;

-- Answers on the way up to the last message that a person wrote: rounds of one loop.
-- name: tool_rounds
WITH RECURSIVE above (id, parent_id, role) AS (
    SELECT m.id, m.parent_id, m.role FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.id = :id AND c.user_id = :user_id AND c.deleted_at IS NULL
    UNION ALL
    SELECT p.id, p.parent_id, p.role FROM messages p JOIN above a ON p.id = a.parent_id WHERE p.role <> 'user'
)
SELECT count(*) FROM above WHERE role = 'assistant';
