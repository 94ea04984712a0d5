-- Before: the tables of 0001 to 0007.
-- After:  the same, and
--
--   battery    the least voltage of each station's battery on each day
--
-- It refers to no other table, because a start checks what does, row by row. day counts days since 1970 (UTC). Days come first, so that the points of one day, which
-- are written together, share a page.

CREATE TABLE battery (
    day        INTEGER NOT NULL,
    station    INTEGER NOT NULL,
    millivolts INTEGER NOT NULL,
    PRIMARY KEY (day, station)
) STRICT, WITHOUT ROWID;
