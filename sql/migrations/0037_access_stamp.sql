-- Version 37: a stamp of who may do what, and when the secret of a client at an issuer ends.
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
ALTER TABLE tool_oauth ADD COLUMN secret_expires_at INTEGER NOT NULL DEFAULT 0; -- ms; 0: it does not end
PRAGMA user_version = 37;
