-- Version 24: a conversation of /v1/conversations is deleted at once and cleared away in small steps.
ALTER TABLE openai_conversations ADD COLUMN deleted_at INTEGER;
CREATE INDEX openai_conversations_deleted ON openai_conversations (deleted_at) WHERE deleted_at IS NOT NULL;
PRAGMA user_version = 24;
