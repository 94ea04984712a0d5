package sqlite

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// states are the last known states of all stations, the row of table station_states.
// One compressed row spares a memory card: with one row for each station, pages would
// be written most of which has not changed.
type states struct {
	// Since is a seq that the journal had reached before the states were collected: a
	// record up to it adds nothing to them.
	Since    uint64       `json:"since"`
	Stations []savedState `json:"stations"` // by id
}

// savedState is the state of one station.
type savedState struct {
	Station  site.StationID `json:"station"`
	Battery  *float64       `json:"battery"`
	Firmware string         `json:"firmware"`
	ByResult bool           `json:"byResult,omitempty"` // it answers each command by a result
	Heard    int64          `json:"heard"`              // milliseconds since 1970 UTC; 0: never
	Locks    []site.Lock    `json:"locks"`

	At     int64           `json:"at"` // a time at which all of this was so: a record up to it adds nothing
	Alarms []station.Alarm `json:"alarms,omitempty"`
}

// maxStates bounds what a damaged row can be expanded to.
const maxStates = 64 << 20

// SaveStates implements [station.Store]. States of enrolments that have ended
// meanwhile are ignored.
func (db *DB) SaveStates(ctx context.Context, saved []station.SavedState) error {
	return db.do(ctx, func(t *transaction) error {
		all, err := readStates(ctx, t.conn, db.log)
		if err != nil {
			return err
		}
		enrolled, err := t.enrolled(ctx)
		if err != nil {
			return err
		}
		for _, s := range saved {
			if at, known := enrolled[s.Station]; !known || at != toMillis(s.Enrolled) {
				continue
			}
			*all.at(s.Station) = savedState{
				Station: s.Station, Battery: s.BatteryVoltage, Firmware: s.Firmware, ByResult: s.ByResult,
				Heard: toMillis(s.LastConnection), Locks: s.Locks, At: toMillis(s.At), Alarms: s.Alarms,
			}
			if err := t.savePoint(s.Station, s.Point); err != nil {
				return err
			}
		}
		all.Stations = slices.DeleteFunc(all.Stations, func(s savedState) bool { _, known := enrolled[s.Station]; return !known })
		// Changes since the last save may not be in these.
		all.Since, db.statesAt = db.statesAt, db.tail.seq
		return t.writeStates(all)
	})
}

// at returns the state of a station, which it adds where there is none.
func (all *states) at(id site.StationID) *savedState {
	i, found := slices.BinarySearchFunc(all.Stations, id, func(s savedState, id site.StationID) int { return cmp.Compare(s.Station, id) })
	if !found {
		all.Stations = slices.Insert(all.Stations, i, savedState{Station: id})
	}
	return &all.Stations[i]
}

// forgetState drops the state of a station that is removed: another one may be
// enrolled under its id.
func (t *transaction) forgetState(id site.StationID) error {
	all, err := readStates(context.Background(), t.conn, t.log)
	before := len(all.Stations)
	all.Stations = slices.DeleteFunc(all.Stations, func(s savedState) bool { return s.Station == id })
	if err != nil || len(all.Stations) == before {
		return err
	}
	return t.writeStates(all)
}

// enrolled returns when each station was enrolled, in milliseconds since 1970 UTC.
func (t *transaction) enrolled(ctx context.Context) (map[site.StationID]int64, error) {
	all := make(map[site.StationID]int64)
	for s, err := range each(ctx, t.conn, scanStation, selectStations) {
		if err != nil {
			return nil, err
		}
		all[s.ID] = toMillis(s.Enrolled)
	}
	return all, nil
}

func (t *transaction) writeStates(all states) error {
	var body bytes.Buffer
	w := zlib.NewWriter(&body)
	if err := errors.Join(json.NewEncoder(w).Encode(all), w.Close()); err != nil {
		return fmt.Errorf("writing the stations' states: %w", err)
	}
	_, err := t.exec("INSERT INTO station_states (id, body) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", body.Bytes())
	return err
}

// readStates reads the row. It ignores one that is damaged: it must not keep every door shut.
func readStates(ctx context.Context, q queryer, log *slog.Logger) (all states, err error) {
	var body []byte
	err = q.QueryRowContext(ctx, "SELECT body FROM station_states").Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("reading the stations' states: %w", err)
	}
	if !bytes.HasPrefix(body, []byte("{")) { // as a migration writes it
		var r io.ReadCloser
		if r, err = zlib.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(io.LimitReader(r, maxStates))
		}
	}
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		log.Error("the saved states of the stations are damaged and ignored", "error", err)
		return states{Since: math.MaxInt64}, nil
	}
	return all, nil
}

// loadStates returns the saved states, with the changes of locks that the journal has
// since then: a change of a lock is durable with its record, and is not saved at once.
func (db *DB) loadStates(ctx context.Context) ([]station.SavedState, error) {
	all, err := readStates(ctx, db.reader(), db.log)
	if err != nil {
		return nil, storageError(err)
	}
	if err := db.replay(ctx, &all); err != nil {
		db.log.Error("the changes since the states of the stations were saved cannot be read", "error", err)
	}
	saved := make([]station.SavedState, len(all.Stations))
	for i, s := range all.Stations {
		saved[i] = station.SavedState{
			Station: s.Station, BatteryVoltage: s.Battery, Firmware: s.Firmware, ByResult: s.ByResult,
			LastConnection: fromMillis(s.Heard), Locks: s.Locks, Alarms: s.Alarms,
		}
	}
	return saved, nil
}

// replay brings the locks, the doors and the alarms up to date.
func (db *DB) replay(ctx context.Context, all *states) error {
	for r, err := range each(ctx, db.reader(), scanRecord, "SELECT body FROM journal WHERE seq > ? AND "+notRemoved+" ORDER BY seq", int64(all.Since)) { //nolint:gosec // seq fits for ever
		if err != nil {
			return err
		}
		switch r.Kind {
		case site.KindStationRemoved: // another one may have its id since
			all.Stations = slices.DeleteFunc(all.Stations, func(s savedState) bool { return s.Station == r.Station && s.At <= r.Time.UnixMilli() })
		case site.KindLockChanged:
			all.change(&r, func(k *site.Lock) { k.Status, k.LastUpdated = r.Status, r.Time })
		case site.KindDoorOpened:
			all.change(&r, func(k *site.Lock) { k.Door, k.DoorSince = site.DoorOpen, r.Time })
		case site.KindDoorClosed:
			all.change(&r, func(k *site.Lock) { k.Door, k.DoorSince = site.DoorClosed, r.Time })
		case site.KindDoorForced, site.KindDoorHeld, site.KindLeftUnlocked, site.KindStationSilent, site.KindRefusedOften:
			all.raise(&r)
		}
	}
	return nil
}

// change applies a change of a lock or its door, unless the state is newer.
func (all *states) change(r *site.Record, apply func(*site.Lock)) {
	s := all.at(r.Station)
	id, err := site.ParseLockID(r.Lock)
	if err != nil || r.Time.UnixMilli() < s.At {
		return
	}
	s.Heard = max(s.Heard, r.Time.UnixMilli())
	i := slices.IndexFunc(s.Locks, func(k site.Lock) bool { return k.ID == id })
	if i < 0 {
		i = len(s.Locks)
		s.Locks = append(s.Locks, site.Lock{ID: id, Status: site.Unknown})
	}
	apply(&s.Locks[i])
}

// raise makes an alarm stand, if it does not; one that does not stand in a newer state has
// cleared.
func (all *states) raise(r *site.Record) {
	lock, _ := site.ParseLockID(r.Lock) // none: of the station
	s := all.at(r.Station)
	same := func(a station.Alarm) bool { return a.Kind == r.Kind && a.Lock == lock }
	if r.Time.UnixMilli() >= s.At && !slices.ContainsFunc(s.Alarms, same) {
		s.Alarms = append(s.Alarms, station.Alarm{Kind: r.Kind, Lock: lock, Since: r.Time})
	}
}
