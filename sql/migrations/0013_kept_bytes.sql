-- Version 13: kept bytes are all texts of a message, not its content and reasoning alone.
DROP TRIGGER user_texts_add;
DROP TRIGGER user_texts_change;
DROP TRIGGER user_texts_remove;
CREATE VIEW message_bytes AS
SELECT m.id, c.user_id, length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
    + length(CAST(coalesce(m.tool_calls, '') || coalesce(m.tool_call_id, '') || coalesce(m.error, '') || coalesce(m.model, '')
        || coalesce(m.job_key, '') || coalesce(m.parser, '') || coalesce(m.timings, '') AS BLOB)) AS bytes
FROM messages m JOIN conversations c ON c.id = m.conversation_id;
CREATE TRIGGER user_texts_add AFTER INSERT ON messages BEGIN
    UPDATE user_texts SET bytes = bytes + (SELECT b.bytes FROM message_bytes b WHERE b.id = NEW.id)
    WHERE user_id = (SELECT b.user_id FROM message_bytes b WHERE b.id = NEW.id);
END;
CREATE TRIGGER user_texts_before BEFORE UPDATE ON messages BEGIN
    UPDATE user_texts SET bytes = bytes - (SELECT b.bytes FROM message_bytes b WHERE b.id = OLD.id)
    WHERE user_id = (SELECT b.user_id FROM message_bytes b WHERE b.id = OLD.id);
END;
CREATE TRIGGER user_texts_after AFTER UPDATE ON messages BEGIN
    UPDATE user_texts SET bytes = bytes + (SELECT b.bytes FROM message_bytes b WHERE b.id = NEW.id)
    WHERE user_id = (SELECT b.user_id FROM message_bytes b WHERE b.id = NEW.id);
END;
CREATE TRIGGER user_texts_remove BEFORE DELETE ON messages BEGIN
    UPDATE user_texts SET bytes = bytes - (SELECT b.bytes FROM message_bytes b WHERE b.id = OLD.id)
    WHERE user_id = (SELECT b.user_id FROM message_bytes b WHERE b.id = OLD.id);
END;
UPDATE user_texts SET bytes = coalesce((SELECT sum(b.bytes) FROM message_bytes b WHERE b.user_id = user_texts.user_id), 0);
PRAGMA user_version = 13;
