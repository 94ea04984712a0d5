-- Before: the tables of 0003.
-- After:  the same, and
--
--   login_address    the client addresses from which an account was logged in to, also
--                    by sessions that have ended; until is when the newest of these
--                    sessions expires or would have. At most 64 of an account
--
-- Times are milliseconds since 1970 UTC; 0 means "none".

CREATE TABLE login_address (
    account TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    remote  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (account, remote)
) STRICT, WITHOUT ROWID;

INSERT INTO login_address (account, remote, until)
SELECT account, remote, MAX(expires) FROM session WHERE remote <> '' GROUP BY account, remote;
