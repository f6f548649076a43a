-- Version 19: old rows of the audit log may be removed, as the setting audit_days has it; a row less than a day old never.
DROP TRIGGER audit_no_removal;
CREATE TRIGGER audit_no_removal BEFORE DELETE ON audit
WHEN old.at >= (CAST(strftime('%s', 'now') AS INTEGER) - 86400) * 1000 BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
CREATE INDEX audit_by_time ON audit (at);
PRAGMA user_version = 19;
