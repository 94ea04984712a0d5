-- Before: the tables of 0001 to 0008.
-- After:  the same, and in station what Home Assistant has of it: off, state or state+unlock.

ALTER TABLE station ADD COLUMN homeassistant TEXT NOT NULL DEFAULT 'state';
