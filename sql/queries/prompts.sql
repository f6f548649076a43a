-- The prompt cache on disk: rows of blocks (see schema.sql).

-- name: prompt_block_place
SELECT segment, segment_offset FROM prompt_blocks WHERE key = :key AND user_id = :user_id AND model_id = :model_id;

-- What lies behind a place in its segment, in order: all from an index, since a chain is walked along these.
-- name: prompt_blocks_from
SELECT key, segment_offset, bytes, user_id, identity, conversation_id FROM prompt_blocks INDEXED BY prompt_blocks_by_place
WHERE model_id = :model_id AND segment = :segment AND segment_offset >= :segment_offset ORDER BY segment_offset;

-- Its blocks are of no use any more, and are cleared away soon.
-- name: prompt_conversation_deleted
SELECT EXISTS (SELECT 1 FROM conversations WHERE id = :id AND user_id = :user_id AND deleted_at IS NOT NULL);

-- Nothing is added for a user or a conversation that is gone, nor what was forgotten since the job's request began: by its whole label, by the id
-- that a label begins with, or by the name's hash behind it. A block that was stored twice has its newer place. Blocks that
-- stayed when the one before them went are its children again.
-- name: prompt_block_add
INSERT INTO prompt_blocks (key, parent, user_id, conversation_id, label, identity, model_id, end_tokens, bytes, state_bytes, segment,
                           segment_offset, compute_ms, made_at, used_at, keep_seconds, keep_until, children)
SELECT :key, :parent, u.id, :conversation_id, :label, :identity, :model_id, :end_tokens, :bytes, :state_bytes, :segment,
       :segment_offset, :compute_ms, :now, :now, :keep_seconds, CASE WHEN :keep_seconds > 0 THEN :now + :keep_seconds * 1000 END,
       (SELECT count(*) FROM prompt_blocks WHERE parent = :key)
FROM users u
WHERE u.id = :user_id AND u.deleted_at IS NULL
  AND (:conversation_id IS NULL
       OR EXISTS (SELECT 1 FROM conversations WHERE id = :conversation_id AND user_id = :user_id AND deleted_at IS NULL))
  AND (:label NOT GLOB 'conv_*'
       OR EXISTS (SELECT 1 FROM openai_conversations WHERE id = substr(:label, 1, 29) AND user_id = :user_id AND deleted_at IS NULL))
  AND NOT EXISTS (SELECT 1 FROM prompt_forgets
                  WHERE user_id = :user_id AND id > :forgets_seen
                    AND owner IN ('', 'c:' || :conversation_id, :label, substr(:label, 1, 29), 'k:' || substr(:label, 31)))
ON CONFLICT (key) DO UPDATE
SET model_id = excluded.model_id, segment = excluded.segment, segment_offset = excluded.segment_offset, bytes = excluded.bytes,
    state_bytes = excluded.state_bytes, used_at = excluded.used_at
WHERE user_id = excluded.user_id
  AND (segment <> excluded.segment OR segment_offset <> excluded.segment_offset OR model_id <> excluded.model_id);

-- A record that got no row; one that has it already, since its event came twice, stays.
-- name: prompt_removal_add
INSERT INTO prompt_block_removals (key, model_id, segment, segment_offset, bytes)
SELECT :key, :model_id, :segment, :segment_offset, :bytes
WHERE NOT EXISTS (SELECT 1 FROM prompt_blocks
                  WHERE key = :key AND model_id = :model_id AND segment = :segment AND segment_offset = :segment_offset)
ON CONFLICT DO NOTHING;

-- name: prompt_block_use
UPDATE prompt_blocks
SET hits = hits + 1, used_at = :now, keep_until = CASE WHEN keep_seconds > 0 THEN :now + keep_seconds * 1000 END
WHERE key = :key;

-- A record that is damaged, missing or gone. Of a row whose record lies elsewhere by now nothing is known.
-- name: prompt_block_gone
DELETE FROM prompt_blocks WHERE key = :key AND model_id = :model_id AND segment = :segment AND segment_offset = :segment_offset;

-- name: prompt_removal_done
DELETE FROM prompt_block_removals
WHERE model_id = :model_id AND segment = :segment AND segment_offset = :segment_offset AND key = :key;

-- name: prompt_removals
SELECT id, key, segment, segment_offset, bytes FROM prompt_block_removals
WHERE +model_id = :model_id AND id > :after ORDER BY id LIMIT :limit;

-- The next model in whose folder records are to be removed; 0 is the first model's.
-- name: prompt_removals_next
SELECT model_id FROM prompt_block_removals WHERE model_id > :after ORDER BY model_id LIMIT 1;

-- In the order of keys: what is added meanwhile may be missed or not. Of the first model, which has most of them; and of another, by
-- an index that the first's are not in.
-- name: prompt_places
SELECT key, segment, segment_offset, bytes FROM prompt_blocks WHERE key > :after AND +model_id = :model_id ORDER BY key LIMIT :limit;

-- name: prompt_places_beside
SELECT key, segment, segment_offset, bytes FROM prompt_blocks
WHERE key > :after AND model_id = :model_id AND model_id > 0 ORDER BY key LIMIT :limit;

-- The next model beside the first that has rows, with its name, if it is still there.
-- name: prompt_models_next
SELECT b.model_id, (SELECT name FROM models WHERE id = b.model_id), count(*), sum(b.bytes)
FROM prompt_blocks b
WHERE b.model_id > 0 AND b.model_id = (SELECT min(model_id) FROM prompt_blocks WHERE model_id > 0 AND model_id > :after)
GROUP BY b.model_id;

-- The recorder clears away the blocks of deleted conversations and users before their other rows.
-- name: prompt_any_deleted
SELECT EXISTS (SELECT 1 FROM conversations c CROSS JOIN prompt_blocks b ON b.conversation_id = c.id WHERE c.deleted_at > 0)
    OR EXISTS (SELECT 1 FROM openai_conversations c CROSS JOIN prompt_blocks b
               ON b.user_id = c.user_id AND b.label >= c.id AND b.label < c.id || ';' WHERE c.deleted_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM users u CROSS JOIN prompt_blocks b ON b.user_id = u.id WHERE u.deleted_at IS NOT NULL)
    OR EXISTS (WITH RECURSIVE kept (id) AS (
                   SELECT min(model_id) FROM prompt_blocks WHERE model_id > 0
                   UNION ALL
                   SELECT (SELECT min(model_id) FROM prompt_blocks WHERE model_id > 0 AND model_id > kept.id) FROM kept WHERE id IS NOT NULL)
               SELECT 1 FROM kept WHERE id IS NOT NULL AND id NOT IN (SELECT model_id FROM local_models));

-- name: prompt_clear_conversations
DELETE FROM prompt_blocks WHERE key IN (
    SELECT b.key FROM conversations c CROSS JOIN prompt_blocks b ON b.conversation_id = c.id
    WHERE c.deleted_at > 0 LIMIT :limit);

-- name: prompt_clear_openai
DELETE FROM prompt_blocks WHERE key IN (
    SELECT b.key FROM openai_conversations c CROSS JOIN prompt_blocks b
    ON b.user_id = c.user_id AND b.label >= c.id AND b.label < c.id || ';' WHERE c.deleted_at IS NOT NULL LIMIT :limit);

-- name: prompt_clear_users
DELETE FROM prompt_blocks WHERE key IN (
    SELECT b.key FROM users u CROSS JOIN prompt_blocks b ON b.user_id = u.id WHERE u.deleted_at IS NOT NULL LIMIT :limit);

-- Of models that are no longer in the list: an id is not given out twice.
-- name: prompt_clear_models
DELETE FROM prompt_blocks WHERE key IN (
    SELECT key FROM prompt_blocks WHERE model_id > 0 AND model_id NOT IN (SELECT model_id FROM local_models) LIMIT :limit);

-- name: prompt_totals
SELECT user_id, blocks, bytes FROM prompt_block_totals;

-- name: prompt_evict_expired
DELETE FROM prompt_blocks WHERE key = (
    SELECT key FROM prompt_blocks WHERE children = 0 AND keep_until IS NOT NULL AND keep_until < :now ORDER BY keep_until LIMIT 1)
RETURNING bytes;

-- Of the ends of chains that were not used for the longest time, the one whose bytes save the least time: what computing it
-- takes, times how likely it is to be asked for again, by its hits and its age.
-- name: prompt_evict
DELETE FROM prompt_blocks WHERE key = (
    SELECT key FROM (SELECT key, compute_ms * (1 + hits) / (bytes * (1 + max(0, :now - used_at) / 3600000.0)) AS worth
                     FROM prompt_blocks WHERE user_id = :user_id AND children = 0 ORDER BY used_at LIMIT 128)
    ORDER BY worth LIMIT 1)
RETURNING bytes;

-- name: prompt_forget_conversation
DELETE FROM prompt_blocks WHERE key IN (
    SELECT b.key FROM prompt_blocks b JOIN conversations c ON c.id = b.conversation_id
    WHERE b.conversation_id = :conversation_id AND b.user_id = :user_id AND c.user_id = :user_id AND c.deleted_at IS NULL
    LIMIT :limit);

-- Of a kept response or a conversation of /v1 too, whose label has the name's hash behind its own id.
-- name: prompt_forget_label
DELETE FROM prompt_blocks WHERE key IN (
    SELECT key FROM prompt_blocks
    WHERE user_id = :user_id AND (label = :label OR label GLOB 'resp_*:' || substr(:label, 3) OR label GLOB 'conv_*:' || substr(:label, 3))
    LIMIT :limit);

-- What belongs to a response or a conversation of /v1.
-- name: prompt_forget_owned
DELETE FROM prompt_blocks WHERE key IN (
    SELECT key FROM prompt_blocks WHERE user_id = :user_id AND label >= :label AND label < :label || ';' LIMIT :limit);

-- name: prompt_forget_user
DELETE FROM prompt_blocks WHERE key IN (SELECT key FROM prompt_blocks WHERE user_id = :user_id LIMIT :limit);

-- name: prompt_forget_all
DELETE FROM prompt_blocks WHERE key IN (SELECT key FROM prompt_blocks LIMIT :limit);

-- What is recorded after this is not listed if its job came before; owner as in schema.sql.
-- The number of the last one that is committed, also of those that are cleared away by now.
-- name: prompt_forgets_last
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'prompt_forgets'), 0), (SELECT stamp FROM access_stamp);

-- name: prompt_forgets_note
INSERT OR REPLACE INTO prompt_forgets (user_id, owner, forgotten_at)
SELECT id, :owner, :now FROM users WHERE id = :user_id;

-- name: prompt_forgets_note_all
INSERT OR REPLACE INTO prompt_forgets (user_id, owner, forgotten_at) SELECT id, '', :now FROM users;

-- name: prompt_forgets_any_old
SELECT 1 FROM prompt_forgets WHERE forgotten_at < :now - 86400000 LIMIT 1;

-- name: prompt_forgets_remove_old
DELETE FROM prompt_forgets WHERE (user_id, owner) IN (
    SELECT user_id, owner FROM prompt_forgets WHERE forgotten_at < :now - 86400000 LIMIT :limit);

-- name: prompt_seal_get
SELECT salt FROM prompt_seals WHERE user_id = :user_id;

-- Another process may have made it by now: that one stays.
-- name: prompt_seal_add
INSERT INTO prompt_seals (user_id, salt) SELECT id, :salt FROM users WHERE id = :user_id AND deleted_at IS NULL
ON CONFLICT DO NOTHING;

-- name: prompt_seal_remove
DELETE FROM prompt_seals WHERE user_id = :user_id;

-- name: prompt_seal_remove_all
DELETE FROM prompt_seals;

-- name: prompt_of_conversation
SELECT count(*), coalesce(sum(b.bytes), 0) FROM prompt_blocks b WHERE b.conversation_id = :conversation_id AND b.user_id = :user_id;

-- name: prompt_of_user
SELECT blocks, bytes FROM prompt_block_totals WHERE user_id = :user_id;

-- name: prompt_facts
SELECT coalesce(sum(blocks), 0), coalesce(sum(bytes), 0), count(*),
       (SELECT count(*) FROM prompt_block_removals), (SELECT coalesce(sum(bytes), 0) FROM prompt_block_removals)
FROM prompt_block_totals WHERE blocks > 0;
