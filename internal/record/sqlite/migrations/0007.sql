-- Before: the tables of 0001 to 0006.
-- After:  the same, and
--
--   site_group       a named group; kind is accounts or stations
--   group_account    an account in a group of accounts
--   group_station    a station in a group of stations
--   holiday          a named entry in the list of holidays; dates are as people write
--                    them, with commas between them
--
--   access_grant     is for an account or a group of accounts, and for a station or a
--                    group of stations: of each two columns one is null. holidays are the
--                    hours on holidays; "": as on other days
--
-- Times are milliseconds since 1970 UTC; 0 means "none".

CREATE TABLE site_group (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE group_account (
    name    TEXT NOT NULL REFERENCES site_group (name) ON DELETE CASCADE,
    account TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    PRIMARY KEY (name, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX group_account_account ON group_account (account);

CREATE TABLE group_station (
    name    TEXT NOT NULL REFERENCES site_group (name) ON DELETE CASCADE,
    station INTEGER NOT NULL REFERENCES station (id) ON DELETE CASCADE,
    PRIMARY KEY (name, station)
) STRICT, WITHOUT ROWID;

CREATE INDEX group_station_station ON group_station (station);

CREATE TABLE holiday (
    name  TEXT PRIMARY KEY,
    dates TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE former_grant AS SELECT * FROM access_grant;

DROP TABLE access_grant;

CREATE TABLE access_grant (
    account       TEXT REFERENCES account (id) ON DELETE CASCADE,
    account_group TEXT REFERENCES site_group (name) ON DELETE CASCADE,
    station       INTEGER REFERENCES station (id) ON DELETE CASCADE,
    station_group TEXT REFERENCES site_group (name) ON DELETE CASCADE,
    from_time     INTEGER NOT NULL,
    until_time    INTEGER NOT NULL,
    hours         TEXT NOT NULL,
    holidays      TEXT NOT NULL,
    CHECK ((account IS NULL) <> (account_group IS NULL)),
    CHECK ((station IS NULL) <> (station_group IS NULL))
) STRICT;

CREATE UNIQUE INDEX access_grant_key ON access_grant (
    ifnull(account, ''), ifnull(account_group, ''), ifnull(station, 0), ifnull(station_group, ''));

CREATE INDEX access_grant_station ON access_grant (station);

INSERT INTO access_grant (account, station, from_time, until_time, hours, holidays)
SELECT account, station, from_time, until_time, hours, '' FROM former_grant ORDER BY account, station;

DROP TABLE former_grant;
