-- Before: the tables of 0001 to 0004.
-- After:  the same, with station_states, one row, in the place of station_state, a row
--         for each station. body is JSON, compressed by zlib unless it begins with "{":
--         all last known states together are a few pages, which is all that saving them
--         writes.

CREATE TABLE station_states (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    body BLOB NOT NULL
) STRICT;

INSERT INTO station_states (id, body)
SELECT 1, CAST(json_object(
    'since', (SELECT last FROM journal_ends),
    'stations', json_group_array(json_object(
        'station', station, 'battery', battery, 'firmware', firmware, 'heard', last_connection, 'locks', json(locks)))) AS BLOB)
FROM station_state
WHERE json_valid(locks);

DROP TABLE station_state;
