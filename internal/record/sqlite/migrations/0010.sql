-- Before: the tables of 0001 to 0009.
-- After:  the same, and in journal_ends how many of its bytes are of the kinds that have a
--         share of their own; -1: not counted yet.

ALTER TABLE journal_ends ADD COLUMN evidence INTEGER NOT NULL DEFAULT -1;
