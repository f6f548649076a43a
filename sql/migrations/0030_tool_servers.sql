-- Version 32: servers of tools, which of these may run without a question, and calls that run.
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
) STRICT;
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
PRAGMA user_version = 30;
