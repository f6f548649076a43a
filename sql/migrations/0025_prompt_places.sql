-- Version 25: a prompt's blocks are found along the places of their records, which mostly lie one after the other.
CREATE INDEX prompt_blocks_by_place ON prompt_blocks (segment, segment_offset, bytes, user_id, identity, conversation_id);
PRAGMA user_version = 25;
