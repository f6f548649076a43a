-- Version 27: blocks of the prompt cache that are recorded after what they belong to was deleted or forgotten are not listed; blocks
-- of a response in a conversation of /v1/conversations are the conversation's; and they may be sealed.
-- What was forgotten lately, and when: blocks are recorded a moment after their job, and those of a job that had come before are not
-- wanted any more. owner: '' all of the user's, 'c:' and a conversation's id, an id of a response or of /v1/conversations, or a label.
CREATE TABLE prompt_forgets (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    forgotten_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, owner)
) STRICT, WITHOUT ROWID;
CREATE INDEX prompt_forgets_by_time ON prompt_forgets (forgotten_at);
-- Where the setting prompt_cache_seal is on: what makes, with the file factor.key, the key that a user's blocks are sealed with. A row
-- that goes takes with it all that was sealed.
CREATE TABLE prompt_seals (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    salt BLOB NOT NULL CHECK (length(salt) = 32)
) STRICT;
UPDATE prompt_blocks SET label = (SELECT r.conversation_id || substr(label, 30) FROM responses r WHERE r.id = substr(label, 1, 29))
WHERE label GLOB 'resp_*' AND EXISTS (
    SELECT 1 FROM responses r
    WHERE r.id = substr(label, 1, 29) AND r.user_id = prompt_blocks.user_id AND length(r.conversation_id) = 29
        AND EXISTS (SELECT 1 FROM openai_conversations c WHERE c.id = r.conversation_id AND c.user_id = r.user_id));
DROP TRIGGER response_remove;
-- A response that goes takes the blocks along that its job was the first to store, also those that are recorded later: their label
-- begins with its id. One that is a day old has none to come.
CREATE TRIGGER response_remove AFTER DELETE ON responses BEGIN
    DELETE FROM prompt_blocks WHERE user_id = OLD.user_id AND label >= OLD.id AND label < OLD.id || ';';
    INSERT OR REPLACE INTO prompt_forgets (user_id, owner, forgotten_at)
    SELECT u.id, OLD.id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM users u
    WHERE u.id = OLD.user_id AND OLD.created_at > (julianday('now') - 2440588.5) * 86400000;
END;
PRAGMA user_version = 27;
