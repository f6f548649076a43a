-- Version 28: what was forgotten is numbered, since a time says nothing of what a request had read by then. The notes that there were
-- are of jobs that are over: an engine is started anew with the program.
DROP TABLE prompt_forgets;
CREATE TABLE prompt_forgets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- the later, the higher
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    forgotten_at INTEGER NOT NULL,
    UNIQUE (user_id, owner)
) STRICT;
CREATE INDEX prompt_forgets_by_time ON prompt_forgets (forgotten_at);
PRAGMA user_version = 28;
