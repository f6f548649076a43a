-- name: quick_check
PRAGMA quick_check(1);

-- name: foreign_key_check
PRAGMA foreign_key_check;

-- name: vacuum_into
VACUUM INTO :path;

-- Asked of bare files (store_copy.c).
-- name: has_attachments
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'attachments';

-- name: copy_files
SELECT DISTINCT sha256, bytes FROM attachments ORDER BY sha256;

-- name: journal_delete
PRAGMA journal_mode = DELETE;

-- name: facts
SELECT (SELECT user_version FROM pragma_user_version),
       (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
       (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size),
       (SELECT count(*) FROM users WHERE deleted_at IS NULL),
       (SELECT count(*) FROM conversations WHERE deleted_at IS NULL),
       (SELECT count(*) FROM messages),
       (SELECT count(*) FROM messages WHERE status = 'running');

-- The following run through store_exec: SQLite obeys such PRAGMAs when they are prepared, not when they are
-- stepped, so a kept statement would do nothing.
-- name: wal
PRAGMA journal_mode = WAL;

-- name: foreign_keys_off
PRAGMA foreign_keys = OFF;

-- name: foreign_keys_on
PRAGMA foreign_keys = ON;

-- name: user_version
PRAGMA user_version;

-- name: application_id
PRAGMA application_id;

-- name: object_count
SELECT count(*) FROM sqlite_schema;

-- Changes when another connection has committed.
-- name: data_version
PRAGMA data_version;
