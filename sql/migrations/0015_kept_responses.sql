-- Version 15: kept bytes are those of kept responses too.
CREATE TRIGGER user_texts_response_add AFTER INSERT ON responses BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.input AS BLOB)) + length(CAST(NEW.response AS BLOB))
    WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_response_remove AFTER DELETE ON responses BEGIN
    UPDATE user_texts SET bytes = bytes - length(CAST(OLD.input AS BLOB)) - length(CAST(OLD.response AS BLOB))
    WHERE user_id = OLD.user_id;
END;
UPDATE user_texts SET bytes = bytes + coalesce((SELECT sum(length(CAST(r.input AS BLOB)) + length(CAST(r.response AS BLOB)))
                                                FROM responses r WHERE r.user_id = user_texts.user_id), 0);
PRAGMA user_version = 15;
