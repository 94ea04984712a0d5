-- Before: the tables of 0001 to 0011.
-- After:  the same, and in session the program that logged in ("Firefox on Android") and the
--         time of the last use; '' and 0: unknown.
--
-- Times are milliseconds since 1970 UTC.

ALTER TABLE session ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
