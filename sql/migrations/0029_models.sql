-- Version 29: models that other servers answer, the servers, and who may use which model.
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
PRAGMA user_version = 29;
