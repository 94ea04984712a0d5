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

// AddStation implements [station.Store].
func (db *DB) AddStation(ctx context.Context, s site.Station, r site.Record) error {
	return db.change(ctx, false, func(t *transaction) error { return t.addStation(s) }, r)
}

func (t *transaction) addStation(s site.Station) error {
	_, err := t.exec("INSERT INTO station (id, name, locks, token, salt, sum, enrolled) VALUES (?, ?, ?, ?, ?, ?, ?)",
		int64(s.ID), s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], toMillis(s.Enrolled))
	return err
}

// UpdateStation implements [station.Store].
func (db *DB) UpdateStation(ctx context.Context, s site.Station, r site.Record) error {
	return db.change(ctx, true, func(t *transaction) error { return t.updateStation(s) }, r)
}

func (t *transaction) updateStation(s site.Station) error {
	return t.mustChange("Station", "UPDATE station SET name = ?, locks = ?, token = ?, salt = ?, sum = ? WHERE id = ?",
		s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], int64(s.ID))
}

// RemoveStation implements [station.Store].
func (db *DB) RemoveStation(ctx context.Context, id site.StationID, r site.Record) error {
	return db.change(ctx, true, func(t *transaction) error { return t.removeStation(id) }, r)
}

func (t *transaction) removeStation(id site.StationID) error {
	if err := t.mustChange("Station", "DELETE FROM station WHERE id = ?", int64(id)); err != nil {
		return err
	}
	return t.forgetState(id)
}
