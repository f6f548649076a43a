-- Version 35: accounts of users at tool servers (OAuth), and vectors of passages for the search by meaning.
-- A tool server that wants a sign-in of each user, and as which client this server is known to its authorization server. typed: somebody
-- entered the client; else it was registered by itself, for this very issuer and redirect_uri. sealed: the client's secret.
CREATE TABLE tool_oauth (
    server_id INTEGER PRIMARY KEY REFERENCES tool_servers (id) ON DELETE CASCADE,
    typed INTEGER NOT NULL DEFAULT 0 CHECK (typed IN (0, 1)),
    client_id TEXT NOT NULL DEFAULT '', -- '': none yet
    sealed BLOB, -- NULL: the client has no secret
    issuer TEXT NOT NULL DEFAULT '', -- whose client it is; '': nobody has begun to sign in
    redirect_uri TEXT NOT NULL DEFAULT ''
) STRICT;
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
-- A passage as the embedding model sees it. model: which one (fcgi/process/side_model.h); vectors of another are made anew.
CREATE TABLE chunk_vectors (
    chunk_id INTEGER PRIMARY KEY REFERENCES file_chunks (id) ON DELETE CASCADE,
    model TEXT NOT NULL CHECK (length(model) = 16),
    vector BLOB NOT NULL -- one signed byte for each dimension; all 0: the model could not read the passage
) STRICT;
PRAGMA user_version = 35;
