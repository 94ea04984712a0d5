package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"gatehouse/internal/site"
	"gatehouse/internal/station"
)

// LoadStations implements [station.Store].
func (db *DB) LoadStations(ctx context.Context) ([]site.Station, []station.SavedState, error) {
	stations, err := query(ctx, db, "SELECT id, name, locks, token, salt, sum, enrolled FROM station ORDER BY id", scanStation)
	if err != nil {
		return nil, nil, fmt.Errorf("reading stations: %w", err)
	}
	states, err := query(ctx, db, "SELECT station, battery, firmware, last_connection, locks FROM station_state", scanState)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the stations' states: %w", err)
	}
	return stations, states, nil
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

func scanState(rows *sql.Rows) (s station.SavedState, err error) {
	var last int64
	var locks []byte
	if err := rows.Scan(&s.Station, &s.BatteryVoltage, &s.Firmware, &last, &locks); err != nil {
		return s, err
	}
	s.LastConnection = fromMillis(last)
	if err := json.Unmarshal(locks, &s.Locks); err != nil {
		return s, fmt.Errorf("reading the locks of station %d: %w", s.Station, errors.Join(errDamaged, err))
	}
	return s, nil
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
	return t.mustChange("Station", "DELETE FROM station WHERE id = ?", int64(id))
}

// SaveStates implements [station.Store]. States of stations that have been removed
// meanwhile are passed over.
func (db *DB) SaveStates(ctx context.Context, states []station.SavedState) error {
	return db.do(ctx, func(t *transaction) error {
		for _, s := range states {
			locks, err := json.Marshal(s.Locks)
			if err != nil {
				return fmt.Errorf("writing the locks of station %d: %w", s.Station, err)
			}
			_, err = t.exec(`INSERT INTO station_state (station, battery, firmware, last_connection, locks)
				SELECT id, ?, ?, ?, ? FROM station WHERE id = ?
				ON CONFLICT (station) DO UPDATE SET battery = excluded.battery, firmware = excluded.firmware,
					last_connection = excluded.last_connection, locks = excluded.locks`,
				s.BatteryVoltage, s.Firmware, toMillis(s.LastConnection), string(locks), int64(s.Station))
			if err != nil {
				return err
			}
		}
		return nil
	})
}
