-- The whole schema of sluice.db, as it is now. A change here is also a new file in migrations/, and the test of
-- the frozen version 1 says when the two differ. user_version is the number of the last migration.
--
-- Times are Unix milliseconds. AUTOINCREMENT: an id is never used twice, so a stale link can't show another
-- thing. Rows of users are reached only by queries that compare user_id.
-- JSON is checked by the store before it comes here: json_valid() in a CHECK needs trusted_schema, at least up
-- to SQLite 3.40, and that is off; the CHECKs see to the outer shape only.

CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL COLLATE NOCASE UNIQUE CHECK (length(name) BETWEEN 1 AND 64),
    role TEXT NOT NULL CHECK (role IN ('admin', 'user')),
    password TEXT NOT NULL CHECK (password LIKE '$argon2id$%' OR deleted_at IS NOT NULL),
    settings TEXT NOT NULL DEFAULT '{}' CHECK (settings GLOB '{*}'),
    disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    created_at INTEGER NOT NULL,
    deleted_at INTEGER -- removed for everyone; the recorder clears the rows away and then this one
, preferences TEXT NOT NULL DEFAULT '{}' CHECK (preferences GLOB '{*}' AND length(preferences) <= 8192)) STRICT;

CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY CHECK (length(token_hash) = 32),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    address TEXT NOT NULL DEFAULT '',
    agent TEXT NOT NULL DEFAULT '',
    confirmed_at INTEGER NOT NULL DEFAULT 0 -- when its user last proved who they are; 0: not since, or it is used up
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_use ON sessions (user_id, used_at);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key_hash BLOB NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    prefix TEXT NOT NULL CHECK (length(prefix) <= 24),
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL DEFAULT 0,
    scopes INTEGER NOT NULL DEFAULT 7 CHECK (scopes BETWEEN 1 AND 15), -- 1 inference, 2 history, 4 admin, 8 metrics
    expires_at INTEGER NOT NULL DEFAULT 0, -- 0: never
    requests_per_minute INTEGER NOT NULL DEFAULT 0 CHECK (requests_per_minute >= 0), -- limits: 0 is none
    tokens_per_minute INTEGER NOT NULL DEFAULT 0 CHECK (tokens_per_minute >= 0),
    max_jobs INTEGER NOT NULL DEFAULT 0 CHECK (max_jobs >= 0),
    strict_parameters INTEGER NOT NULL DEFAULT 0 CHECK (strict_parameters IN (0, 1)) -- refuse what has no effect
) STRICT;
CREATE INDEX api_keys_by_user ON api_keys (user_id);

-- Folders of chats, with instructions and files of their own.
CREATE TABLE projects (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 64), -- its name in exports, the same on every server
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    colour INTEGER NOT NULL DEFAULT 0 CHECK (colour BETWEEN 0 AND 7), -- one of the theme's eight
    instructions TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, key)
) STRICT;

-- leaf_id names a message of this very conversation: the pair is the foreign key. Deferred, since a
-- conversation and its messages come and go in one transaction.
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 64), -- its name in exports, the same on every server
    title TEXT NOT NULL DEFAULT '' CHECK (length(title) <= 512),
    settings TEXT NOT NULL DEFAULT '{}' CHECK (settings GLOB '{*}'),
    leaf_id INTEGER,
    pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    fork_of INTEGER REFERENCES conversations (id) ON DELETE SET NULL, -- whose messages it began with
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    trashed_at INTEGER, -- in the trash; the recorder deletes it after 30 days
    deleted_at INTEGER, project_id INTEGER REFERENCES projects (id) ON DELETE SET NULL, -- deleted by its owner; the recorder clears it away
    FOREIGN KEY (id, leaf_id) REFERENCES messages (conversation_id, id) DEFERRABLE INITIALLY DEFERRED
) STRICT;
CREATE INDEX conversations_by_user ON conversations (user_id, updated_at DESC, id DESC)
    WHERE deleted_at IS NULL;
CREATE INDEX conversations_by_owner ON conversations (user_id);
CREATE UNIQUE INDEX conversations_by_key ON conversations (user_id, key) WHERE deleted_at IS NULL;
CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX conversations_trashed ON conversations (trashed_at) WHERE trashed_at IS NOT NULL;
CREATE INDEX conversations_by_project ON conversations (project_id, updated_at DESC, id DESC) WHERE project_id IS NOT NULL;
CREATE INDEX conversations_forks ON conversations (fork_of) WHERE fork_of IS NOT NULL;

CREATE TABLE conversation_tags (
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    folded TEXT NOT NULL, -- the tag without letter case, in one form (fold.h): tags are the same when this is
    tag TEXT NOT NULL CHECK (length(tag) BETWEEN 1 AND 64),
    PRIMARY KEY (conversation_id, folded)
) STRICT, WITHOUT ROWID;

-- A tree by parent_id inside one conversation; a child's id is always greater than its parent's.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    parent_id INTEGER CHECK (parent_id < id),
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    status TEXT NOT NULL CHECK (status IN ('done', 'running', 'stopped', 'length', 'error')),
    content TEXT NOT NULL DEFAULT '',
    reasoning TEXT NOT NULL DEFAULT '',
    tool_calls TEXT CHECK (tool_calls GLOB '[[]*]'),
    tool_call_id TEXT,
    error TEXT,
    model TEXT,
    job_key TEXT UNIQUE CHECK (length(job_key) BETWEEN 1 AND 47),
    parser TEXT CHECK (parser GLOB '{*}'),
    timings TEXT CHECK (timings GLOB '{*}'),
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    completion_tokens INTEGER,
    created_at INTEGER NOT NULL,
    finished_at INTEGER, error_detail TEXT CHECK (error_detail GLOB '{*}'), sources TEXT CHECK (sources GLOB '{*}'),
    UNIQUE (conversation_id, id),
    FOREIGN KEY (conversation_id, parent_id) REFERENCES messages (conversation_id, id),
    CHECK (status <> 'running' OR (role = 'assistant' AND job_key IS NOT NULL AND finished_at IS NULL)),
    CHECK (status = 'running' OR finished_at IS NOT NULL)
) STRICT;
CREATE INDEX messages_by_parent ON messages (conversation_id, parent_id);
CREATE INDEX messages_running ON messages (conversation_id) WHERE status = 'running';

-- Files that a user gave along with messages, one row for each upload. Their bytes lie beside the database, in
-- attachments/, under their SHA-256 and once however many rows name them. text is what the model reads of it; NULL: an image.
CREATE TABLE attachments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    type TEXT NOT NULL CHECK (length(type) BETWEEN 3 AND 127),
    bytes INTEGER NOT NULL CHECK (bytes >= 0),
    tokens INTEGER CHECK (tokens >= 0), -- of its part of a prompt, as `model` counts
    model TEXT,
    note TEXT, -- what is to be known of how it was read
    created_at INTEGER NOT NULL,
    loose_at INTEGER, -- in no message: since then; 0: it was in one, and is cleared away at once
    text TEXT
) STRICT;
CREATE INDEX attachments_by_user ON attachments (user_id);
CREATE INDEX attachments_by_content ON attachments (sha256);
CREATE INDEX attachments_loose ON attachments (loose_at) WHERE loose_at IS NOT NULL;

CREATE TABLE message_attachments (
    message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    attachment_id INTEGER NOT NULL REFERENCES attachments (id),
    PRIMARY KEY (message_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_attachments_by_attachment ON message_attachments (attachment_id);
CREATE TRIGGER attachment_loosened AFTER DELETE ON message_attachments
WHEN NOT EXISTS (SELECT 1 FROM message_attachments WHERE attachment_id = OLD.attachment_id)
 AND NOT EXISTS (SELECT 1 FROM project_files WHERE attachment_id = OLD.attachment_id) BEGIN
    UPDATE attachments SET loose_at = 0 WHERE id = OLD.attachment_id;
END;

-- A project's files are attachments, which stay as long as a message or a project has them.
CREATE TABLE project_files (
    project_id INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    attachment_id INTEGER NOT NULL REFERENCES attachments (id),
    PRIMARY KEY (project_id, attachment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_files_by_attachment ON project_files (attachment_id);
CREATE TRIGGER project_file_loosened AFTER DELETE ON project_files
WHEN NOT EXISTS (SELECT 1 FROM message_attachments WHERE attachment_id = OLD.attachment_id)
 AND NOT EXISTS (SELECT 1 FROM project_files WHERE attachment_id = OLD.attachment_id) BEGIN
    UPDATE attachments SET loose_at = 0 WHERE id = OLD.attachment_id;
END;

-- Which three letters in a row stand in which finished message: candidates, whose text is then compared. It keeps no
-- text and no places. The store writes it (triggers may not, with trusted_schema off): a message comes in when it is
-- finished and goes out in the transaction that deletes its row.
CREATE VIRTUAL TABLE message_search USING fts5 (
    content, content = 'messages', content_rowid = 'id', tokenize = 'trigram', detail = none
);

-- The same of attachments, from their upload on: which letters stand in a file's name and in its text.
CREATE VIRTUAL TABLE attachment_search USING fts5 (
    name, text, content = 'attachments', content_rowid = 'id', tokenize = 'trigram', detail = none
);

-- Long texts, and texts that came many at once, are searched in parts: rows here instead of entries in the two indexes above. The
-- recorder puts the parts into part_search, a few in a transaction, so that nobody waits for a whole text. A part begins at
-- a letter and overlaps the next one by more letters than a search may have. removed: taken out again, before its text is deleted.
CREATE TABLE search_parts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL, -- whose text it is
    message_id INTEGER REFERENCES messages (id),
    attachment_id INTEGER REFERENCES attachments (id),
    start INTEGER NOT NULL CHECK (start >= 1),
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'indexed', 'removed')),
    CHECK ((message_id IS NULL) <> (attachment_id IS NULL))
) STRICT;
CREATE INDEX search_parts_by_message ON search_parts (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX search_parts_by_attachment ON search_parts (attachment_id) WHERE attachment_id IS NOT NULL;
CREATE INDEX search_parts_waiting ON search_parts (user_id, id) WHERE state = 'waiting';
CREATE VIEW search_part_texts AS
SELECT p.id, p.message_id, p.attachment_id,
    CASE WHEN p.attachment_id IS NULL THEN (SELECT substr(m.content, p.start, 18432) FROM messages m WHERE m.id = p.message_id)
         ELSE (SELECT substr(a.name || char(10) || coalesce(a.text, ''), p.start, 18432)
               FROM attachments a WHERE a.id = p.attachment_id) END AS text
FROM search_parts p WHERE p.state = 'indexed';
CREATE VIRTUAL TABLE part_search USING fts5 (
    text, content = 'search_part_texts', content_rowid = 'id', tokenize = 'trigram', detail = none
);

-- Passages of the text of projects' files, some 1600 letters each, for the search by words. The recorder puts them into chunk_search,
-- a few in a transaction. The index keeps no text; owner is 'u' and the user's id, so that a search finds no other user's entries.
CREATE TABLE file_chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    attachment_id INTEGER NOT NULL REFERENCES attachments (id),
    start INTEGER NOT NULL CHECK (start >= 0), -- bytes of the attachment's text before it
    bytes INTEGER NOT NULL CHECK (bytes > 0),
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'indexed')),
    UNIQUE (attachment_id, start)
) STRICT;
CREATE INDEX file_chunks_waiting ON file_chunks (attachment_id, id) WHERE state = 'waiting';
CREATE VIRTUAL TABLE chunk_search USING fts5 (
    owner, text, content = '', tokenize = 'unicode61 remove_diacritics 2'
);
-- A passage as the embedding model sees it. model: which one (fcgi/process/side_model.h); vectors of another are made anew.
CREATE TABLE chunk_vectors (
    chunk_id INTEGER PRIMARY KEY REFERENCES file_chunks (id) ON DELETE CASCADE,
    model TEXT NOT NULL CHECK (length(model) = 16),
    vector BLOB NOT NULL -- one signed byte for each dimension; all 0: the model could not read the passage
) STRICT;

-- Read-only links: who holds the token sees the branch that ends with leaf_id, as it was when the link was made (a message
-- does not change: another version is another row, and an answer that a link ends with is not gone on with). Revoked is deleted.
CREATE TABLE shares (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    leaf_id INTEGER NOT NULL,
    title TEXT NOT NULL, -- as it was then
    created_at INTEGER NOT NULL,
    expires_at INTEGER, -- NULL: never
    files INTEGER NOT NULL DEFAULT 0 CHECK (files IN (0, 1)), -- the branch's attachments are shown too
    FOREIGN KEY (conversation_id, leaf_id) REFERENCES messages (conversation_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX shares_by_user ON shares (user_id, id DESC);
CREATE INDEX shares_by_leaf ON shares (conversation_id, leaf_id);
CREATE INDEX shares_by_expiry ON shares (expires_at) WHERE expires_at IS NOT NULL;

-- What a user keeps for later use: presets (settings, a JSON object) and prompts (text with {{variables}}).
CREATE TABLE library (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('preset', 'prompt')),
    name TEXT NOT NULL COLLATE NOCASE CHECK (length(name) BETWEEN 1 AND 64),
    body TEXT NOT NULL CHECK (body <> ''),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, kind, name)
) STRICT;

-- Tokens of an answer that can be gone on with: those that made the text, while it is text_bytes long. Little-endian int32.
CREATE TABLE unfinished (
    message_id INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    tokens BLOB NOT NULL CHECK (length(tokens) % 4 = 0),
    text_bytes INTEGER NOT NULL
) STRICT;

-- Conversations whose title was given by their user: no model changes it.
CREATE TABLE own_titles (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE
) STRICT;

-- The server's own settings, one JSON value each.
CREATE TABLE settings (
    name TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
    value TEXT NOT NULL CHECK (value <> '')
) STRICT, WITHOUT ROWID;

-- key_id 0: the page. No foreign key: the counts of a removed key stay.
CREATE TABLE usage (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    day INTEGER NOT NULL, -- Unix days
    key_id INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    PRIMARY KEY (user_id, day, key_id)
) STRICT, WITHOUT ROWID;

-- Answers of /v1/responses: own input items, and the response as it was sent. They expire.
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

-- What programs keep by /v1/conversations: lists of items, apart from the page's conversations,
-- which are trees of messages. They stay until they are deleted: from then on nobody finds them, and
-- the recorder clears them away. A position is never given out twice; bytes: of the metadata and
-- the items. The last column stands as ALTER TABLE adds it, so that both texts are the same.
CREATE TABLE openai_conversations (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 6 AND 64),
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    metadata TEXT NOT NULL CHECK (metadata GLOB '{*}'),
    last_position INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL
, deleted_at INTEGER) STRICT;
CREATE INDEX openai_conversations_by_user ON openai_conversations (user_id, created_at, id);
CREATE INDEX openai_conversations_deleted ON openai_conversations (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE TABLE openai_conversation_items (
    conversation_id TEXT NOT NULL REFERENCES openai_conversations (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL CHECK (length(id) BETWEEN 1 AND 128),
    item TEXT NOT NULL CHECK (item GLOB '{*}'),
    PRIMARY KEY (conversation_id, position),
    UNIQUE (conversation_id, id)
) STRICT;

-- Rows are only ever added; the recorder removes those older than the setting audit_days says, a day at least. user_id without foreign key: what a removed user did stays known.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    user_name TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_no_change BEFORE UPDATE ON audit BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER audit_no_removal BEFORE DELETE ON audit
WHEN old.at >= (CAST(strftime('%s', 'now') AS INTEGER) - 86400) * 1000 BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
CREATE INDEX audit_by_time ON audit (at);

-- One-time links with which people make their accounts. made_by and used_by without foreign key: they stay known.
CREATE TABLE invites (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    role TEXT NOT NULL CHECK (role IN ('admin', 'user')),
    note TEXT NOT NULL CHECK (length(note) <= 64),
    made_by INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER,
    used_by INTEGER,
    revoked_at INTEGER
) STRICT;
CREATE INDEX invites_open ON invites (expires_at) WHERE used_at IS NULL AND revoked_at IS NULL;

-- RFC 6238. A secret that both sides must compute with can't be a hash: it lies sealed under a key that is not in here (factor_key.h).
CREATE TABLE second_factors (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    sealed BLOB NOT NULL CHECK (length(sealed) = 60),
    created_at INTEGER NOT NULL,
    confirmed_at INTEGER, -- NULL: a proof is still missing, and it asks for nothing
    last_step INTEGER NOT NULL DEFAULT 0 -- of the last code that was taken: none is taken twice
) STRICT;
CREATE TABLE recovery_codes (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    code_hash BLOB NOT NULL CHECK (length(code_hash) = 32),
    PRIMARY KEY (user_id, code_hash)
) STRICT, WITHOUT ROWID;

-- Passkeys: public keys of authenticators, so that nothing in here serves to log in.
CREATE TABLE webauthn_credentials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    credential_id BLOB NOT NULL UNIQUE CHECK (length(credential_id) BETWEEN 1 AND 1023),
    algorithm INTEGER NOT NULL CHECK (algorithm IN (-7, -8, -257)), -- COSE: ES256, EdDSA, RS256
    public_key BLOB NOT NULL,
    counter INTEGER NOT NULL CHECK (counter BETWEEN 0 AND 4294967295), -- of signatures; 0: the authenticator counts none
    transports TEXT NOT NULL DEFAULT '', -- how browsers reach it, with blanks between them
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX webauthn_credentials_by_user ON webauthn_credentials (user_id);

-- What an authenticator is asked to sign: taken once, by the session or the browser that asked for it.
CREATE TABLE webauthn_challenges (
    challenge_hash BLOB PRIMARY KEY CHECK (length(challenge_hash) = 32),
    purpose TEXT NOT NULL CHECK (purpose IN ('register', 'login', 'confirm')),
    asked_by BLOB NOT NULL CHECK (length(asked_by) = 32), -- hash of the session's token, or of the browser's cookie
    expires_at INTEGER NOT NULL,
    UNIQUE (asked_by, purpose)
) STRICT, WITHOUT ROWID;
CREATE INDEX webauthn_challenges_by_expiry ON webauthn_challenges (expires_at);

-- What an admin allows a user; 0 is no limit. No row: what the server's settings say for everyone.
CREATE TABLE user_limits (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    requests_per_minute INTEGER NOT NULL CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER NOT NULL CHECK (tokens_per_minute >= 0),
    max_jobs INTEGER NOT NULL CHECK (max_jobs >= 0),
    tokens_per_day INTEGER NOT NULL CHECK (tokens_per_day >= 0),
    storage_bytes INTEGER NOT NULL CHECK (storage_bytes >= 0)
) STRICT;

-- How many bytes a user keeps in messages: all that is text in a row, but the words that only the schema allows; in kept
-- responses, and in what /v1/conversations keeps. Counted by the statements that write and delete them. A message that goes with its conversation finds that gone: so conversations are
-- emptied before they are deleted (record.sql).
CREATE TABLE user_texts (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    bytes INTEGER NOT NULL
) STRICT;
CREATE VIEW message_bytes AS
SELECT m.id, c.user_id, length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
    + length(CAST(coalesce(m.tool_calls, '') || coalesce(m.tool_call_id, '') || coalesce(m.error, '') || coalesce(m.model, '')
        || coalesce(m.job_key, '') || coalesce(m.parser, '') || coalesce(m.timings, '') || coalesce(m.error_detail, '')
        || coalesce(m.sources, '') AS BLOB)) AS bytes
FROM messages m JOIN conversations c ON c.id = m.conversation_id;
CREATE TRIGGER user_texts_begin AFTER INSERT ON users BEGIN
    INSERT INTO user_texts (user_id, bytes) VALUES (NEW.id, 0);
END;
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
CREATE TRIGGER user_texts_project_add AFTER INSERT ON projects BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.name || NEW.instructions AS BLOB)) WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_project_change AFTER UPDATE ON projects BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.name || NEW.instructions AS BLOB))
        - length(CAST(OLD.name || OLD.instructions AS BLOB)) WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_project_remove AFTER DELETE ON projects BEGIN
    UPDATE user_texts SET bytes = bytes - length(CAST(OLD.name || OLD.instructions AS BLOB)) WHERE user_id = OLD.user_id;
END;
CREATE TRIGGER user_texts_response_add AFTER INSERT ON responses BEGIN
    UPDATE user_texts SET bytes = bytes + length(CAST(NEW.input AS BLOB)) + length(CAST(NEW.response AS BLOB))
    WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER user_texts_response_remove AFTER DELETE ON responses BEGIN
    UPDATE user_texts SET bytes = bytes - length(CAST(OLD.input AS BLOB)) - length(CAST(OLD.response AS BLOB))
    WHERE user_id = OLD.user_id;
END;
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

-- Accounts at an OpenID provider that sign in as users, and sign-ins that are under way there.
CREATE TABLE oidc_identities (
    issuer TEXT NOT NULL CHECK (length(issuer) BETWEEN 1 AND 1000),
    subject TEXT NOT NULL CHECK (length(subject) BETWEEN 1 AND 255), -- the issuer's name for the account: never given to another
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    label TEXT NOT NULL DEFAULT '' CHECK (length(label) <= 200), -- what its owner knows it by; nothing is decided by it
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX oidc_identities_by_user ON oidc_identities (user_id, issuer);
CREATE TABLE oidc_flows (
    state_hash BLOB PRIMARY KEY CHECK (length(state_hash) = 32),
    browser_hash BLOB NOT NULL CHECK (length(browser_hash) = 32), -- of the cookie of the browser that began it
    session_hash BLOB CHECK (length(session_hash) = 32), -- the session that links the account; NULL: somebody signs in
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oidc_flows_by_expiry ON oidc_flows (expires_at);

-- The prompt cache on disk: one row for each block of a prompt whose KV the engine keeps in a segment file. The rows are the only
-- list of what lies there; the engine writes and checks the records. A key is a hash of all that determines the block's KV, of the
-- user's scope and of all tokens up to the block's end, so a chain of rows by parent is a prompt's beginning. children: rows whose
-- parent this is; what has none may be evicted. A row that goes leaves its record's place in prompt_block_removals,
-- in the same transaction and whatever removed it, until an engine has answered that the bytes are gone.
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
CREATE TABLE prompt_block_totals (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    blocks INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
-- What was forgotten lately: blocks are recorded a moment after their job, and those of a job whose request had begun to read before are
-- not wanted any more. It carries the highest id there was then. owner: '' all of the user's, 'c:' and a conversation's id, an id of a
-- response or of /v1/conversations, or a label.
CREATE TABLE prompt_forgets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- the later, the higher
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    forgotten_at INTEGER NOT NULL,
    UNIQUE (user_id, owner)
) STRICT;
CREATE INDEX prompt_forgets_by_time ON prompt_forgets (forgotten_at);
-- Where the setting prompt_cache_seal is on: what makes, with the file factor.key, the key that a user's blocks are sealed with. A row
-- that goes takes with it all that was sealed.
CREATE TABLE prompt_seals (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    salt BLOB NOT NULL CHECK (length(salt) = 32)
) STRICT;
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

-- Models that other servers answer, the servers, and who may use which model.
CREATE TABLE upstreams (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 64),
    dialect TEXT NOT NULL CHECK (dialect IN ('openai', 'anthropic', 'ollama')),
    url TEXT NOT NULL CHECK (length(url) BETWEEN 8 AND 512), -- the API's base, with its /v1 where it has one
    key BLOB, -- what it wants from us, sealed by the file factor.key; NULL: nothing
    drained INTEGER NOT NULL DEFAULT 0 CHECK (drained IN (0, 1)), -- gets no new answers
    max_streams INTEGER NOT NULL DEFAULT 0 CHECK (max_streams >= 0), -- at once; 0: no limit
    first_byte_ms INTEGER NOT NULL DEFAULT 300000 CHECK (first_byte_ms BETWEEN 100 AND 3600000), -- patience: from the request to the first byte,
    idle_ms INTEGER NOT NULL DEFAULT 120000 CHECK (idle_ms BETWEEN 100 AND 3600000), -- and from one byte to the next
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE models (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 128),
    kind TEXT NOT NULL DEFAULT 'chat' CHECK (kind IN ('chat', 'embedding', 'rerank')),
    context INTEGER NOT NULL DEFAULT 0 CHECK (context >= 0), -- tokens; 0: not known
    tools INTEGER NOT NULL DEFAULT 1 CHECK (tools IN (0, 1)),
    vision INTEGER NOT NULL DEFAULT 0 CHECK (vision IN (0, 1)),
    reasoning INTEGER NOT NULL DEFAULT 0 CHECK (reasoning IN (0, 1)), -- reads its earlier reasoning
    everyone INTEGER NOT NULL DEFAULT 1 CHECK (everyone IN (0, 1)), -- 0: those in model_users, and admins
    created_at INTEGER NOT NULL
) STRICT;
-- Of the models above, those of this machine beside the one that `sluice up` was started with: answered by engines of their own.
CREATE TABLE local_models (
    model_id INTEGER PRIMARY KEY REFERENCES models (id) ON DELETE CASCADE,
    path TEXT NOT NULL CHECK (length(path) BETWEEN 1 AND 4095), -- a folder or a GGUF file
    pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)), -- stays in memory, once it is there
    preload INTEGER NOT NULL DEFAULT 0 CHECK (preload IN (0, 1)), -- is loaded when the server starts
    idle_s INTEGER NOT NULL DEFAULT 900 CHECK (idle_s >= 0), -- unloaded when unused for so long; 0: only for room
    defaults TEXT CHECK (length(defaults) <= 1000) -- a JSON object: what requests leave open; NULL: as the model says
, device TEXT CHECK (length(device) BETWEEN 1 AND 100)) STRICT;
CREATE TABLE model_aliases (
    alias TEXT PRIMARY KEY CHECK (length(alias) BETWEEN 1 AND 128),
    model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX model_aliases_by_model ON model_aliases (model_id);
-- Which server answers for a model, and by which name it knows it there. Lower priorities come first; weight: its share among equals.
CREATE TABLE model_upstreams (
    model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    upstream_id INTEGER NOT NULL REFERENCES upstreams (id) ON DELETE CASCADE,
    remote TEXT NOT NULL CHECK (length(remote) BETWEEN 1 AND 256),
    priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 100),
    weight INTEGER NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    PRIMARY KEY (model_id, upstream_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX model_upstreams_by_upstream ON model_upstreams (upstream_id);
CREATE TABLE model_users (
    model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (model_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX model_users_by_user ON model_users (user_id);
-- Servers of tools (Model Context Protocol) whose tools chats may offer to the model. tools: what the server listed when it was last
-- asked, as fcgi/tools/tool_list.h says. sealed: the value of the header, under a key that is not in here (factor_key.h) and bound to
-- owner and url, so that it goes nowhere else.
CREATE TABLE tool_servers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER REFERENCES users (id) ON DELETE CASCADE, -- NULL: an admin's, for everyone
    name TEXT NOT NULL COLLATE NOCASE CHECK (length(name) BETWEEN 1 AND 24), -- what names of calls begin with
    url TEXT NOT NULL CHECK (length(url) BETWEEN 8 AND 1000),
    header TEXT NOT NULL DEFAULT 'Authorization' CHECK (length(header) BETWEEN 1 AND 64),
    sealed BLOB, -- NULL: no header is sent
    enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    tools TEXT NOT NULL CHECK (tools GLOB '[[]*]'),
    listed_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL
, everyone INTEGER NOT NULL DEFAULT 1 CHECK (everyone IN (0, 1))) STRICT; -- of an admin's; 0: those in tool_server_groups, and admins
CREATE INDEX tool_servers_by_user ON tool_servers (user_id);
CREATE INDEX tool_servers_by_name ON tool_servers (name);
-- Tools that a user lets run without being asked, as they were described then: a tool that is described anew asks again.
CREATE TABLE tool_permissions (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    server_id INTEGER NOT NULL REFERENCES tool_servers (id) ON DELETE CASCADE,
    tool TEXT NOT NULL CHECK (length(tool) BETWEEN 1 AND 128),
    definition TEXT NOT NULL CHECK (length(definition) = 64),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, server_id, tool)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_permissions_by_server ON tool_permissions (server_id);
-- Calls of an answer that run or have run, until the results become messages: then the row goes.
CREATE TABLE tool_runs (
    message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    call_id TEXT NOT NULL CHECK (length(call_id) BETWEEN 1 AND 200),
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'stopped', 'refused')),
    result TEXT NOT NULL DEFAULT '', -- what the model gets to read
    began_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL, -- while it runs: when it has ended or was lost with its process; else when it ended
    PRIMARY KEY (message_id, call_id)
) STRICT, WITHOUT ROWID;
-- A tool server that wants a sign-in of each user, and as which client this server is known to its authorization server. typed: somebody
-- entered the client; else it was registered by itself, for this very issuer and redirect_uri. sealed: the client's secret.
CREATE TABLE tool_oauth (
    server_id INTEGER PRIMARY KEY REFERENCES tool_servers (id) ON DELETE CASCADE,
    typed INTEGER NOT NULL DEFAULT 0 CHECK (typed IN (0, 1)),
    client_id TEXT NOT NULL DEFAULT '', -- '': none yet
    sealed BLOB, -- NULL: the client has no secret
    issuer TEXT NOT NULL DEFAULT '', -- whose client it is; '': nobody has begun to sign in
    redirect_uri TEXT NOT NULL DEFAULT ''
, secret_expires_at INTEGER NOT NULL DEFAULT 0) STRICT; -- the last: ms; 0: it does not end
-- Who is signed in at a tool server. about: where its tokens come from, as fcgi/oauth/oauth.h says. sealed: the tokens, bound to user,
-- server, its url and about, so that they go nowhere else. wanted: scopes that a call missed. refreshing_until: somebody fetches new ones.
CREATE TABLE tool_sign_ins (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    server_id INTEGER NOT NULL REFERENCES tool_servers (id) ON DELETE CASCADE,
    about TEXT NOT NULL CHECK (about GLOB '{*}'),
    sealed BLOB NOT NULL,
    expires_at INTEGER NOT NULL, -- of the access token; 0: it was not said
    version INTEGER NOT NULL DEFAULT 1,
    refreshing_until INTEGER NOT NULL DEFAULT 0,
    wanted TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, server_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_sign_ins_by_server ON tool_sign_ins (server_id);
-- Sign-ins that are under way: hashes of the state and of the browser's cookie, and the session that began it.
CREATE TABLE tool_flows (
    state_hash BLOB PRIMARY KEY CHECK (length(state_hash) = 32),
    browser_hash BLOB NOT NULL CHECK (length(browser_hash) = 32),
    session_hash BLOB NOT NULL CHECK (length(session_hash) = 32),
    server_id INTEGER NOT NULL REFERENCES tool_servers (id) ON DELETE CASCADE,
    about TEXT NOT NULL CHECK (about GLOB '{*}'),
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_flows_by_expiry ON tool_flows (expires_at);
CREATE INDEX tool_flows_by_server ON tool_flows (server_id);

-- Groups of users: what a group carries holds for its members. Limits: NULL says nothing, 0 is no limit.
CREATE TABLE user_groups (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL COLLATE NOCASE UNIQUE CHECK (length(name) BETWEEN 1 AND 64),
    description TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 200),
    claim TEXT NOT NULL DEFAULT '' CHECK (length(claim) <= 200), -- what the sign-in provider calls it; '': by its name
    requests_per_minute INTEGER CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0),
    max_jobs INTEGER CHECK (max_jobs >= 0),
    tokens_per_day INTEGER CHECK (tokens_per_day >= 0),
    storage_bytes INTEGER CHECK (storage_bytes >= 0),
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE group_members (
    group_id INTEGER NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    provider INTEGER NOT NULL DEFAULT 0 CHECK (provider IN (0, 1)), -- 1: the sign-in provider says so, and takes it back
    PRIMARY KEY (group_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX group_members_by_user ON group_members (user_id);
CREATE TABLE model_groups (
    model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    group_id INTEGER NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    PRIMARY KEY (model_id, group_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX model_groups_by_group ON model_groups (group_id);
CREATE TABLE tool_server_groups (
    server_id INTEGER NOT NULL REFERENCES tool_servers (id) ON DELETE CASCADE,
    group_id INTEGER NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    PRIMARY KEY (server_id, group_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_server_groups_by_group ON tool_server_groups (group_id);
CREATE TABLE invite_groups ( -- into which an invitation puts its account
    invite_id INTEGER NOT NULL REFERENCES invites (id) ON DELETE CASCADE,
    group_id INTEGER NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    PRIMARY KEY (invite_id, group_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX invite_groups_by_group ON invite_groups (group_id);

-- Whom a project's owner shares it with. Chats in it stay their users' own.
CREATE TABLE project_shares (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    user_id INTEGER REFERENCES users (id) ON DELETE CASCADE,
    group_id INTEGER REFERENCES user_groups (id) ON DELETE CASCADE,
    editor INTEGER NOT NULL CHECK (editor IN (0, 1)), -- may change instructions and files; else may use them
    created_at INTEGER NOT NULL,
    UNIQUE (project_id, user_id),
    UNIQUE (project_id, group_id),
    CHECK ((user_id IS NULL) <> (group_id IS NULL))
) STRICT;
CREATE INDEX project_shares_by_user ON project_shares (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX project_shares_by_group ON project_shares (group_id) WHERE group_id IS NOT NULL;
CREATE TABLE project_leaves ( -- who wants none of a group's project
    project_id INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (project_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_leaves_by_user ON project_leaves (user_id);
-- Who may read which project, and nothing else says so: 0 a reader, 1 an editor, 2 its owner. Somebody may be in it several
-- times: the highest counts.
CREATE VIEW project_access AS
SELECT id AS project_id, user_id, 2 AS access FROM projects
UNION ALL
SELECT project_id, user_id, editor FROM project_shares WHERE user_id IS NOT NULL
UNION ALL
SELECT s.project_id, g.user_id, s.editor FROM project_shares s JOIN group_members g ON g.group_id = s.group_id
WHERE NOT EXISTS (SELECT 1 FROM project_leaves l WHERE l.project_id = s.project_id AND l.user_id = g.user_id);

PRAGMA application_id = 1397511491; -- "SLUC"
-- A response that goes takes the blocks along that its job was the first to store, also those that are recorded later: their label
-- begins with its id. One that is a day old has none to come.
CREATE TRIGGER response_remove AFTER DELETE ON responses BEGIN
    DELETE FROM prompt_blocks WHERE user_id = OLD.user_id AND label >= OLD.id AND label < OLD.id || ';';
    INSERT OR REPLACE INTO prompt_forgets (user_id, owner, forgotten_at)
    SELECT u.id, OLD.id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM users u
    WHERE u.id = OLD.user_id AND OLD.created_at > (julianday('now') - 2440588.5) * 86400000;
END;
-- What tells a connection that who may do what is as it read it before (access_cache.h): drawn anew by whatever changes a user, a key's
-- terms, limits, groups or models. Random, since a file that was restored must not repeat a number.
CREATE TABLE access_stamp (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    stamp INTEGER NOT NULL
) STRICT;
INSERT INTO access_stamp VALUES (1, random());
CREATE TRIGGER access_users_changed AFTER UPDATE OF name, role, disabled, deleted_at ON users BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_users_removed AFTER DELETE ON users BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_api_keys_added AFTER INSERT ON api_keys BEGIN UPDATE access_stamp SET stamp = random(); END; -- by REPLACE, too
CREATE TRIGGER access_api_keys_changed AFTER UPDATE OF user_id, key_hash, scopes, expires_at, requests_per_minute, tokens_per_minute, max_jobs, strict_parameters ON api_keys BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_api_keys_removed AFTER DELETE ON api_keys BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_user_limits_added AFTER INSERT ON user_limits BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_user_limits_changed AFTER UPDATE ON user_limits BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_user_limits_removed AFTER DELETE ON user_limits BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_group_members_added AFTER INSERT ON group_members BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_group_members_changed AFTER UPDATE ON group_members BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_group_members_removed AFTER DELETE ON group_members BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_models_added AFTER INSERT ON models BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_models_changed AFTER UPDATE ON models BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_models_removed AFTER DELETE ON models BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_local_models_added AFTER INSERT ON local_models BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_local_models_changed AFTER UPDATE ON local_models BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_local_models_removed AFTER DELETE ON local_models BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_aliases_added AFTER INSERT ON model_aliases BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_aliases_changed AFTER UPDATE ON model_aliases BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_aliases_removed AFTER DELETE ON model_aliases BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_users_added AFTER INSERT ON model_users BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_users_changed AFTER UPDATE ON model_users BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_users_removed AFTER DELETE ON model_users BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_groups_added AFTER INSERT ON model_groups BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_groups_changed AFTER UPDATE ON model_groups BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_model_groups_removed AFTER DELETE ON model_groups BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_user_groups_changed AFTER UPDATE ON user_groups BEGIN UPDATE access_stamp SET stamp = random(); END;
CREATE TRIGGER access_user_groups_removed AFTER DELETE ON user_groups BEGIN UPDATE access_stamp SET stamp = random(); END;
PRAGMA user_version = 38;
