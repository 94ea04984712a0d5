package sqlite

import (
	"context"
	"database/sql"

	"gatehouse/internal/site"
)

// schemaTokens is the first version of the schema that has integration tokens.
const schemaTokens = 6

// LoadTokens reads every integration token.
func (db *DB) LoadTokens(ctx context.Context) ([]site.Token, error) {
	tokens, err := query(ctx, db, "SELECT id, name, sum, reads, unlocks_all, created, until_time, used FROM token", scanToken)
	if err != nil {
		return nil, err
	}
	stations, err := query(ctx, db, "SELECT token, station FROM token_station ORDER BY token, station", scanTokenStation)
	if err != nil {
		return nil, err
	}
	for i := range tokens {
		for _, s := range stations {
			if s.token == tokens[i].ID {
				tokens[i].Scope.Unlock = append(tokens[i].Scope.Unlock, s.station)
			}
		}
	}
	return tokens, nil
}

// tokenStation is a station that the scope of a token names.
type tokenStation struct {
	token   site.AccountID
	station site.StationID
}

func scanTokenStation(rows *sql.Rows) (s tokenStation, err error) {
	err = rows.Scan(&s.token, &s.station)
	return s, err
}

func scanToken(rows *sql.Rows) (t site.Token, err error) {
	var created, until, used int64
	var sum []byte
	err = rows.Scan(&t.ID, &t.Name, &sum, &t.Scope.Read, &t.Scope.UnlockAll, &created, &until, &used)
	copy(t.Sum[:], sum)
	t.Created, t.Until, t.Used = fromMillis(created), fromMillis(until), fromMillis(used)
	return t, err
}

func (t *transaction) addToken(n site.Token) error {
	_, err := t.exec("INSERT INTO token (id, name, sum, reads, unlocks_all, created, until_time, used) VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
		string(n.ID), n.Name, n.Sum[:], n.Scope.Read, n.Scope.UnlockAll, toMillis(n.Created), toMillis(n.Until))
	for _, station := range n.Scope.Unlock {
		if err == nil {
			_, err = t.exec("INSERT INTO token_station (token, station) VALUES (?, ?)", string(n.ID), int64(station))
		}
	}
	return err
}
