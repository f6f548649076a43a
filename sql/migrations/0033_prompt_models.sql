-- Version 33: prompts of models beside the first are kept on the disk as well, each model's in a folder of its own. Tables are made anew, so
-- that their texts are schema.sql's; the counter of removals goes along.
DROP TRIGGER prompt_block_add;
DROP TRIGGER prompt_block_move;
DROP TRIGGER prompt_block_remove;
DROP TRIGGER response_remove;
DROP INDEX prompt_blocks_by_parent;
DROP INDEX prompt_blocks_by_user;
DROP INDEX prompt_blocks_by_conversation;
DROP INDEX prompt_blocks_by_use;
DROP INDEX prompt_blocks_by_expiry;
DROP INDEX prompt_blocks_by_place;
ALTER TABLE prompt_blocks RENAME TO prompt_blocks_32;
ALTER TABLE prompt_block_removals RENAME TO prompt_block_removals_32;
CREATE TABLE prompt_blocks (
    key BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 16),
    parent BLOB NOT NULL CHECK (length(parent) = 16), -- key of the block before, or what a chain begins with
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    conversation_id INTEGER REFERENCES conversations (id) ON DELETE CASCADE, -- whose job stored it first; NULL: the API's
    label TEXT NOT NULL DEFAULT '' CHECK (length(label) <= 47), -- of an API's request: its prompt_cache_key, hashed
    identity INTEGER NOT NULL, -- of model, weights and arithmetic, as the engine reports it
    model_id INTEGER NOT NULL DEFAULT 0 CHECK (model_id >= 0), -- row of the model whose engine's folder has the record; 0: the first model's
    end_tokens INTEGER NOT NULL CHECK (end_tokens > 0), -- of the chain up to the block's end
    bytes INTEGER NOT NULL CHECK (bytes > 0), -- of the record
    state_bytes INTEGER NOT NULL CHECK (state_bytes >= 0), -- of these, recurrent state
    segment INTEGER NOT NULL CHECK (segment >= 0),
    segment_offset INTEGER NOT NULL CHECK (segment_offset >= 0),
    compute_ms REAL NOT NULL CHECK (compute_ms >= 0), -- what computing it took
    made_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    hits INTEGER NOT NULL DEFAULT 0, -- jobs that continued from it
    keep_seconds INTEGER NOT NULL DEFAULT 0 CHECK (keep_seconds >= 0), -- after each use; 0: as long as there is room
    keep_until INTEGER, -- evicted first from then on; NULL: as long as there is room
    children INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO prompt_blocks (key, parent, user_id, conversation_id, label, identity, end_tokens, bytes, state_bytes,
    segment, segment_offset, compute_ms, made_at, used_at, hits, keep_seconds, keep_until, children)
SELECT key, parent, user_id, conversation_id, label, identity, end_tokens, bytes, state_bytes,
    segment, segment_offset, compute_ms, made_at, used_at, hits, keep_seconds, keep_until, children FROM prompt_blocks_32;
DROP TABLE prompt_blocks_32;
CREATE INDEX prompt_blocks_by_place ON prompt_blocks (model_id, segment, segment_offset, bytes, user_id, identity, conversation_id);
CREATE INDEX prompt_blocks_by_model ON prompt_blocks (model_id) WHERE model_id > 0;
CREATE INDEX prompt_blocks_by_parent ON prompt_blocks (parent);
CREATE INDEX prompt_blocks_by_user ON prompt_blocks (user_id, label);
CREATE INDEX prompt_blocks_by_conversation ON prompt_blocks (conversation_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX prompt_blocks_by_use ON prompt_blocks (user_id, used_at) WHERE children = 0;
CREATE INDEX prompt_blocks_by_expiry ON prompt_blocks (keep_until) WHERE children = 0 AND keep_until IS NOT NULL;
CREATE TABLE prompt_block_removals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL CHECK (length(key) = 16),
    segment INTEGER NOT NULL,
    segment_offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    model_id INTEGER NOT NULL DEFAULT 0,
    UNIQUE (model_id, segment, segment_offset, key)
) STRICT;
INSERT INTO prompt_block_removals (id, key, segment, segment_offset, bytes)
SELECT id, key, segment, segment_offset, bytes FROM prompt_block_removals_32;
DELETE FROM sqlite_sequence WHERE name = 'prompt_block_removals';
INSERT INTO sqlite_sequence (name, seq) SELECT 'prompt_block_removals', seq FROM sqlite_sequence WHERE name = 'prompt_block_removals_32';
DROP TABLE prompt_block_removals_32;
CREATE TRIGGER prompt_block_add AFTER INSERT ON prompt_blocks BEGIN
    UPDATE prompt_blocks SET children = children + 1 WHERE key = NEW.parent;
    INSERT INTO prompt_block_totals (user_id, blocks, bytes) VALUES (NEW.user_id, 1, NEW.bytes)
    ON CONFLICT (user_id) DO UPDATE SET blocks = blocks + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prompt_block_move AFTER UPDATE OF model_id, segment, segment_offset ON prompt_blocks
WHEN NEW.segment <> OLD.segment OR NEW.segment_offset <> OLD.segment_offset OR NEW.model_id <> OLD.model_id BEGIN
    INSERT INTO prompt_block_removals (key, model_id, segment, segment_offset, bytes)
    VALUES (OLD.key, OLD.model_id, OLD.segment, OLD.segment_offset, OLD.bytes) ON CONFLICT DO NOTHING;
    UPDATE prompt_block_totals SET bytes = bytes + NEW.bytes - OLD.bytes WHERE user_id = OLD.user_id;
END;
CREATE TRIGGER prompt_block_remove AFTER DELETE ON prompt_blocks BEGIN
    INSERT INTO prompt_block_removals (key, model_id, segment, segment_offset, bytes)
    VALUES (OLD.key, OLD.model_id, OLD.segment, OLD.segment_offset, OLD.bytes) ON CONFLICT DO NOTHING;
    -- What is left of a chain was used when its end was.
    UPDATE prompt_blocks SET children = children - 1, used_at = max(used_at, OLD.used_at) WHERE key = OLD.parent;
    UPDATE prompt_block_totals SET blocks = blocks - 1, bytes = bytes - OLD.bytes WHERE user_id = OLD.user_id;
END;
CREATE TRIGGER response_remove AFTER DELETE ON responses BEGIN
    DELETE FROM prompt_blocks WHERE user_id = OLD.user_id AND label >= OLD.id AND label < OLD.id || ';';
    INSERT OR REPLACE INTO prompt_forgets (user_id, owner, forgotten_at)
    SELECT u.id, OLD.id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM users u
    WHERE u.id = OLD.user_id AND OLD.created_at > (julianday('now') - 2440588.5) * 86400000;
END;
PRAGMA user_version = 33;
