-- Version 23: the prompt cache on disk has its list here.
-- The prompt cache on disk: one row for each block of a prompt whose KV the engine keeps in a segment file. The rows are the only
-- list of what lies there; the engine writes and checks the records. A key is a hash of all that determines the block's KV, of the
-- user's scope and of all tokens up to the block's end, so a chain of rows by parent is a prompt's beginning. children: rows whose
-- parent this is; what has none may be evicted. A row that goes leaves its record's place in prompt_block_removals,
-- in the same transaction and whatever removed it, until the engine has answered that the bytes are gone.
CREATE TABLE prompt_blocks (
    key BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 16),
    parent BLOB NOT NULL CHECK (length(parent) = 16), -- key of the block before, or what a chain begins with
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    conversation_id INTEGER REFERENCES conversations (id) ON DELETE CASCADE, -- whose job stored it first; NULL: the API's
    label TEXT NOT NULL DEFAULT '' CHECK (length(label) <= 47), -- of an API's request: its prompt_cache_key, hashed
    identity INTEGER NOT NULL, -- of model, weights and arithmetic, as the engine reports it
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
    UNIQUE (segment, segment_offset, key)
) STRICT;
CREATE TABLE prompt_block_totals (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    blocks INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE TRIGGER prompt_block_add AFTER INSERT ON prompt_blocks BEGIN
    UPDATE prompt_blocks SET children = children + 1 WHERE key = NEW.parent;
    INSERT INTO prompt_block_totals (user_id, blocks, bytes) VALUES (NEW.user_id, 1, NEW.bytes)
    ON CONFLICT (user_id) DO UPDATE SET blocks = blocks + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prompt_block_move AFTER UPDATE OF segment, segment_offset ON prompt_blocks
WHEN NEW.segment <> OLD.segment OR NEW.segment_offset <> OLD.segment_offset BEGIN
    INSERT INTO prompt_block_removals (key, segment, segment_offset, bytes)
    VALUES (OLD.key, OLD.segment, OLD.segment_offset, OLD.bytes) ON CONFLICT DO NOTHING;
    UPDATE prompt_block_totals SET bytes = bytes + NEW.bytes - OLD.bytes WHERE user_id = OLD.user_id;
END;
CREATE TRIGGER prompt_block_remove AFTER DELETE ON prompt_blocks BEGIN
    INSERT INTO prompt_block_removals (key, segment, segment_offset, bytes)
    VALUES (OLD.key, OLD.segment, OLD.segment_offset, OLD.bytes) ON CONFLICT DO NOTHING;
    -- What is left of a chain was used when its end was.
    UPDATE prompt_blocks SET children = children - 1, used_at = max(used_at, OLD.used_at) WHERE key = OLD.parent;
    UPDATE prompt_block_totals SET blocks = blocks - 1, bytes = bytes - OLD.bytes WHERE user_id = OLD.user_id;
END;
PRAGMA user_version = 23;
