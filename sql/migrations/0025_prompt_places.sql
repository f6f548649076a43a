-- Version 25: a prompt's blocks are found along the places of their records, which mostly lie one after the other; and go with the
-- response that they were made for.
CREATE INDEX prompt_blocks_by_place ON prompt_blocks (segment, segment_offset, bytes, user_id, identity, conversation_id);
-- A response that goes takes the blocks along that its job was the first to store: their label begins with its id.
CREATE TRIGGER response_remove AFTER DELETE ON responses BEGIN
    DELETE FROM prompt_blocks WHERE user_id = OLD.user_id AND label >= OLD.id AND label < OLD.id || ';';
END;
PRAGMA user_version = 25;
