-- Version 36: how a user likes the page: a JSON object, checked by /api/preferences.
ALTER TABLE users ADD COLUMN preferences TEXT NOT NULL DEFAULT '{}' CHECK (preferences GLOB '{*}' AND length(preferences) <= 8192);
PRAGMA user_version = 36;
