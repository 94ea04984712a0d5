-- Before: an empty file.
-- After:
--
--   account ──< session            one login each
--      └──< access_grant >── station ── station_state (last known, coarse)
--   journal                        append-only, chained by hash, gapless seq
--   journal_ends                   one row: where the kept chain begins and ends
--   meta                           named values of this gateway
--
-- Times are milliseconds since 1970 UTC; 0 means "none".

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE account (
    id       TEXT PRIMARY KEY,
    email    TEXT NOT NULL UNIQUE,
    admin    INTEGER NOT NULL,
    password TEXT NOT NULL,
    created  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    id            TEXT PRIMARY KEY,
    account       TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    refresh       BLOB NOT NULL UNIQUE,
    created       INTEGER NOT NULL,
    expires       INTEGER NOT NULL,
    clock_trusted INTEGER NOT NULL,
    remote        TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_account ON session (account);

CREATE TABLE station (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    locks    INTEGER NOT NULL,
    token    TEXT NOT NULL UNIQUE,
    salt     BLOB NOT NULL,
    sum      BLOB NOT NULL,
    enrolled INTEGER NOT NULL
) STRICT;

CREATE TABLE station_state (
    station         INTEGER PRIMARY KEY REFERENCES station (id) ON DELETE CASCADE,
    battery         REAL,
    firmware        TEXT NOT NULL,
    last_connection INTEGER NOT NULL,
    locks           TEXT NOT NULL
) STRICT;

CREATE TABLE access_grant (
    account    TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    station    INTEGER NOT NULL REFERENCES station (id) ON DELETE CASCADE,
    from_time  INTEGER NOT NULL,
    until_time INTEGER NOT NULL,
    hours      TEXT NOT NULL,
    PRIMARY KEY (account, station)
) STRICT, WITHOUT ROWID;

CREATE INDEX access_grant_station ON access_grant (station);

CREATE TABLE journal (
    seq     INTEGER PRIMARY KEY,
    time    INTEGER NOT NULL,
    station INTEGER NOT NULL,
    body    TEXT NOT NULL,
    hash    BLOB NOT NULL
) STRICT;

CREATE TABLE journal_ends (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    first  INTEGER NOT NULL,
    anchor BLOB NOT NULL,
    last   INTEGER NOT NULL,
    hash   BLOB NOT NULL,
    bytes  INTEGER NOT NULL
) STRICT;

INSERT INTO journal_ends (id, first, anchor, last, hash, bytes)
VALUES (1, 1, zeroblob(32), 0, zeroblob(32), 0);
