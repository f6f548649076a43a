-- Version 34: groups of users, what they carry, and projects that are shared.
ALTER TABLE tool_servers ADD COLUMN everyone INTEGER NOT NULL DEFAULT 1 CHECK (everyone IN (0, 1));
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
PRAGMA user_version = 34;
