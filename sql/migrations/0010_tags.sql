-- Version 10: tags are the same in any letter case of any script. Of a conversation's own two that now are, one stays.
CREATE TABLE conversation_tags_10 (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    tag TEXT NOT NULL
) STRICT;
INSERT INTO conversation_tags_10 (conversation_id, tag) SELECT conversation_id, tag FROM conversation_tags;
DROP TABLE conversation_tags;
CREATE TABLE conversation_tags (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    folded TEXT NOT NULL, -- the tag without letter case, in one form (fold.h): tags are the same when this is
    tag TEXT NOT NULL CHECK (length(tag) BETWEEN 1 AND 64),
    PRIMARY KEY (conversation_id, folded)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO conversation_tags (conversation_id, folded, tag)
SELECT conversation_id, text_folded(tag), tag FROM conversation_tags_10;
DROP TABLE conversation_tags_10;
PRAGMA user_version = 10;
