-- Version 38: which GPU a model of this machine runs on.
ALTER TABLE local_models ADD COLUMN device TEXT CHECK (length(device) BETWEEN 1 AND 100);
PRAGMA user_version = 38;
