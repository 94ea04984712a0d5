-- Before: the tables of 0001.
-- After:  the same, and
--
--   cloud_command    one row for each signed command that was taken, so that none is
--                    carried out twice; until is its expiry, and ended when its outcome
--                    came
--
-- In meta: cloud_cursor, the last seq that the cloud has taken; cloud_stations, the
-- stations whose state stands at the cloud (a JSON list of ids); cloud_commands_from, on
-- a gateway that was restored from a backup, since when commands are taken again ("0":
-- not yet).
--
-- Times are milliseconds since 1970 UTC; 0 means "none".

CREATE TABLE cloud_command (
    id      TEXT PRIMARY KEY,
    until   INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    ended   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
