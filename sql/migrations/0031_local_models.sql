-- Version 31: models of this machine beside the one that `sluice up` was started with. Which other models there are stays in models.
CREATE TABLE local_models (
    model_id INTEGER PRIMARY KEY REFERENCES models (id) ON DELETE CASCADE,
    path TEXT NOT NULL CHECK (length(path) BETWEEN 1 AND 4095), -- a folder or a GGUF file
    pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)), -- stays in memory, once it is there
    preload INTEGER NOT NULL DEFAULT 0 CHECK (preload IN (0, 1)), -- is loaded when the server starts
    idle_s INTEGER NOT NULL DEFAULT 900 CHECK (idle_s >= 0), -- unloaded when unused for so long; 0: only for room
    defaults TEXT CHECK (length(defaults) <= 1000) -- a JSON object: what requests leave open; NULL: as the model says
) STRICT;
PRAGMA user_version = 31;
