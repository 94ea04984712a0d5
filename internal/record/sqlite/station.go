package sqlite

import (
	"context"
	"database/sql"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// LoadStations implements [station.Store].
func (db *DB) LoadStations(ctx context.Context) ([]site.Station, []station.SavedState, error) {
	stations, err := query(ctx, db, selectStations, scanStation)
	if err != nil {
		return nil, nil, err
	}
	states, err := db.loadStates(ctx)
	return stations, states, err
}

const selectStations = "SELECT id, name, locks, token, salt, sum, enrolled, homeassistant FROM station ORDER BY id"

func scanStation(rows *sql.Rows) (s site.Station, err error) {
	var token string
	var salt, sum []byte
	var enrolled int64
	err = rows.Scan(&s.ID, &s.Name, &s.Locks, &token, &salt, &sum, &enrolled, &s.HomeAssistant)
	s.Token, s.Enrolled = site.Secret(token), fromMillis(enrolled)
	copy(s.Secret.Salt[:], salt)
	copy(s.Secret.Sum[:], sum)
	return s, err
}
