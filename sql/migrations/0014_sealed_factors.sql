-- Version 14: second factors' secrets lie sealed. What they were overwritten with is secure_delete's work.
ALTER TABLE second_factors RENAME TO second_factors_plain;
CREATE TABLE second_factors (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    sealed BLOB NOT NULL CHECK (length(sealed) = 60),
    created_at INTEGER NOT NULL,
    confirmed_at INTEGER, -- NULL: a proof is still missing, and it asks for nothing
    last_step INTEGER NOT NULL DEFAULT 0 -- of the last code that was taken: none is taken twice
) STRICT;
INSERT INTO second_factors (user_id, sealed, created_at, confirmed_at, last_step)
SELECT user_id, factor_sealed(user_id, secret), created_at, confirmed_at, last_step FROM second_factors_plain;
DROP TABLE second_factors_plain;
PRAGMA user_version = 14;
