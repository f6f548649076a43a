-- Version 17: conversations of /v1/conversations, and which of them a kept response was made in.
-- The table of responses is made anew, so that its text is schema.sql's; nothing is counted here.
ALTER TABLE responses RENAME TO responses_16;
DROP TRIGGER user_texts_response_add;
DROP TRIGGER user_texts_response_remove;
DROP INDEX responses_by_user;
DROP INDEX responses_by_expiry;
CREATE TABLE responses (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 6 AND 64),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    previous_id TEXT,
    conversation_id TEXT, -- of openai_conversations: what came before, where no response did
    conversation_position INTEGER NOT NULL DEFAULT 0, -- of the last item there that came before
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    input TEXT NOT NULL CHECK (input GLOB '[[]*]'),
    response TEXT NOT NULL CHECK (response GLOB '{*}')
) STRICT;
CREATE INDEX responses_by_user ON responses (user_id);
CREATE INDEX responses_by_expiry ON responses (expires_at);
INSERT INTO responses (id, user_id, previous_id, created_at, expires_at, input, response)
SELECT id, user_id, previous_id, created_at, expires_at, input, response FROM responses_16;
DROP TABLE responses_16;
CREATE TRIGGER user_texts_response_add AFTER INSERT ON responses BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.input AS BLOB)) + length(CAST(NEW.response AS BLOB))
    WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_response_remove AFTER DELETE ON responses BEGIN
    UPDATE user_texts SET bytes = bytes - length(CAST(OLD.input AS BLOB)) - length(CAST(OLD.response AS BLOB))
    WHERE user_id = OLD.user_id;
END;
-- What programs keep by /v1/conversations: lists of items, apart from the page's conversations,
-- which are trees of messages. They stay until they are deleted. A position is never given out
-- twice; bytes: of the metadata and the items.
CREATE TABLE openai_conversations (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 6 AND 64),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    metadata TEXT NOT NULL CHECK (metadata GLOB '{*}'),
    last_position INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX openai_conversations_by_user ON openai_conversations (user_id, created_at, id);
CREATE TABLE openai_conversation_items (
    conversation_id TEXT NOT NULL REFERENCES openai_conversations (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL CHECK (length(id) BETWEEN 1 AND 128),
    item TEXT NOT NULL CHECK (item GLOB '{*}'),
    PRIMARY KEY (conversation_id, position),
    UNIQUE (conversation_id, id)
) STRICT;
CREATE TRIGGER openai_item_add AFTER INSERT ON openai_conversation_items BEGIN
    UPDATE openai_conversations
    SET bytes = bytes + length(CAST(NEW.item AS BLOB)), last_position = NEW.position
    WHERE id = NEW.conversation_id;
END;
CREATE TRIGGER openai_item_remove AFTER DELETE ON openai_conversation_items BEGIN
    UPDATE openai_conversations SET bytes = bytes - length(CAST(OLD.item AS BLOB))
    WHERE id = OLD.conversation_id;
END;
CREATE TRIGGER user_texts_openai_add AFTER INSERT ON openai_conversations BEGIN
    UPDATE user_texts SET bytes = bytes + NEW.bytes WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_openai_change AFTER UPDATE OF bytes ON openai_conversations BEGIN
    UPDATE user_texts SET bytes = bytes + NEW.bytes - OLD.bytes WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_openai_remove AFTER DELETE ON openai_conversations BEGIN
    UPDATE user_texts SET bytes = bytes - OLD.bytes WHERE user_id = OLD.user_id;
END;
PRAGMA user_version = 17;
