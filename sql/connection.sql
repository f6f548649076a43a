-- Settings of every connection, made when it opens. WAL itself is a property of the file (connection_wal).
PRAGMA trusted_schema = OFF;
PRAGMA cell_size_check = ON;
PRAGMA secure_delete = ON;
PRAGMA foreign_keys = ON;
PRAGMA recursive_triggers = ON;
-- A commit does not sync the WAL: store_write_end does, after the write lock is free again.
PRAGMA synchronous = NORMAL;
-- Only the recorder checks the WAL in, and it does so itself: two checkpointers meet SQLite's WAL-reset bug.
PRAGMA wal_autocheckpoint = 0;
PRAGMA journal_size_limit = 8388608; -- what is left of the file when it is begun anew
-- 1 MiB a connection: a worker has one per thread.
PRAGMA cache_size = -1024;
PRAGMA temp_store = MEMORY;
-- No mmap: with several writing processes it is part of the known corruption reports.
PRAGMA mmap_size = 0;
