-- Before: the tables of 0001 to 0010.
-- After:  the same, and
--
--   login_device    the devices from which an account was logged in to, also by sessions
--                   that have ended; sum is the SHA-256 of the device's secret, until is
--                   when the newest of these sessions expires or would have. At most 256
--                   of an account
--
-- login_address is no longer used.
--
-- Times are milliseconds since 1970 UTC; 0 means "none".

CREATE TABLE login_device (
    account TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    sum     BLOB NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (account, sum)
) STRICT, WITHOUT ROWID;
