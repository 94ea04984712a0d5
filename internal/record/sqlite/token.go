package sqlite

import (
	"database/sql"
	"encoding/json"

	"gatehouse/internal/site"
)

// schemaTokens is the first version of the schema that has integration tokens.
const schemaTokens = 6

func scanToken(rows *sql.Rows) (t site.Token, err error) {
	var created, until, used int64
	var sum, stations []byte
	if err := rows.Scan(&t.ID, &t.Name, &sum, &t.Scope.Read, &t.Scope.UnlockAll, &created, &until, &used, &stations); err != nil {
		return t, err
	}
	copy(t.Sum[:], sum)
	t.Created, t.Until, t.Used = site.At(fromMillis(created)), site.At(fromMillis(until)), site.At(fromMillis(used))
	return t, json.Unmarshal(stations, &t.Scope.Unlock)
}

func (t *transaction) addToken(n site.Token) error {
	_, err := t.exec("INSERT INTO token (id, name, sum, reads, unlocks_all, created, until_time, used) VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
		string(n.ID), n.Name, n.Sum[:], n.Scope.Read, n.Scope.UnlockAll, toMillis(n.Created.Time), toMillis(n.Until.Time))
	for _, station := range n.Scope.Unlock {
		if err == nil {
			_, err = t.exec("INSERT INTO token_station (token, station) VALUES (?, ?)", string(n.ID), int64(station))
		}
	}
	return err
}
