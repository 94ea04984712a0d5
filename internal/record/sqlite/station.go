package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// LoadStations implements [station.Store].
func (db *DB) LoadStations(ctx context.Context) ([]site.Station, []station.SavedState, error) {
	stations, err := query(ctx, db, "SELECT id, name, locks, token, salt, sum, enrolled FROM station ORDER BY id", scanStation)
	if err != nil {
		return nil, nil, fmt.Errorf("reading stations: %w", err)
	}
	states, err := db.loadStates(ctx)
	return stations, states, err
}

func scanStation(rows *sql.Rows) (s site.Station, err error) {
	var token string
	var salt, sum []byte
	var enrolled int64
	err = rows.Scan(&s.ID, &s.Name, &s.Locks, &token, &salt, &sum, &enrolled)
	s.Token, s.Enrolled = site.Secret(token), fromMillis(enrolled)
	copy(s.Secret.Salt[:], salt)
	copy(s.Secret.Sum[:], sum)
	return s, err
}

func (t *transaction) addStation(s site.Station) error {
	_, err := t.exec("INSERT INTO station (id, name, locks, token, salt, sum, enrolled) VALUES (?, ?, ?, ?, ?, ?, ?)",
		int64(s.ID), s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], toMillis(s.Enrolled))
	return err
}

func (t *transaction) updateStation(s site.Station) error {
	return t.mustChange("Station", "UPDATE station SET name = ?, locks = ?, token = ?, salt = ?, sum = ? WHERE id = ?",
		s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], int64(s.ID))
}

func (t *transaction) removeStation(id site.StationID) error {
	if err := t.mustChange("Station", "DELETE FROM station WHERE id = ?", int64(id)); err != nil {
		return err
	}
	return t.forgetState(id)
}
