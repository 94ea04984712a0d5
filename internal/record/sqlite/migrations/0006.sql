-- Before: the tables of 0001 to 0005.
-- After:  the same, and
--
--   token ──< token_station >── station    integration tokens, and what they may unlock
--
-- sum is the SHA-256 of the token. A station that is removed leaves every scope.

CREATE TABLE token (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    sum         BLOB NOT NULL UNIQUE,
    reads       INTEGER NOT NULL,
    unlocks_all INTEGER NOT NULL,
    created     INTEGER NOT NULL,
    until_time  INTEGER NOT NULL,
    used        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE token_station (
    token   TEXT NOT NULL REFERENCES token (id) ON DELETE CASCADE,
    station INTEGER NOT NULL REFERENCES station (id) ON DELETE CASCADE,
    PRIMARY KEY (token, station)
) STRICT, WITHOUT ROWID;

CREATE INDEX token_station_station ON token_station (station);
