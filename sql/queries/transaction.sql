-- Every write begins IMMEDIATE: a read that turns into a write fails at once with SQLITE_BUSY_SNAPSHOT,
-- whatever the timeout.
-- name: begin
BEGIN IMMEDIATE;

-- A snapshot for several reads that belong together.
-- name: begin_read
BEGIN DEFERRED;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;
