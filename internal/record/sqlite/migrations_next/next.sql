-- Only in builds with the tag gatehouse_nextschema, which are for tests: a version of
-- the product whose schema is one newer.
-- Before: the newest schema of ../migrations.
-- After:  the same, and a table that nothing uses.

CREATE TABLE next_version (
    id INTEGER PRIMARY KEY
) STRICT;
