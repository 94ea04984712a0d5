package sqlite

import (
	"context"
	"database/sql"
	"math"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// keptDays is how many days of batteries are kept.
const keptDays = 400

// tableBattery is not part of the copy, which is written again and again: it may become
// far larger than all the rest.
const tableBattery = "battery"

// savePoint adds a point of one station's battery, unless there is one of that day, and
// drops those of all stations that are too old beside it.
func (t *transaction) savePoint(id site.StationID, p station.BatteryPoint) error {
	if p.Volts == 0 {
		return nil
	}
	_, err := t.exec("INSERT INTO battery (day, station, millivolts) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", p.Day, int64(id), int64(math.Round(p.Volts*1000)))
	if err == nil {
		_, err = t.exec("DELETE FROM battery WHERE day <= ?", p.Day-keptDays)
	}
	return err
}

// forgetPoints drops the points of a station that is removed.
func (t *transaction) forgetPoints(id site.StationID) error {
	_, err := t.exec("DELETE FROM battery WHERE station = ?", int64(id))
	return err
}

// Battery implements [station.Store]. It looks each day up, because the days come first in
// the table.
func (db *DB) Battery(ctx context.Context, id site.StationID) ([]station.BatteryPoint, error) {
	return query(ctx, db, `WITH RECURSIVE days (day) AS (
			SELECT min(day) FROM battery UNION ALL SELECT day + 1 FROM days WHERE day < (SELECT max(day) FROM battery))
		SELECT battery.day, millivolts FROM days CROSS JOIN battery ON battery.day = days.day AND battery.station = ?
		ORDER BY battery.day`, scanPoint, int64(id))
}

func scanPoint(rows *sql.Rows) (p station.BatteryPoint, err error) {
	var millivolts int64
	err = rows.Scan(&p.Day, &millivolts)
	p.Volts = float64(millivolts) / 1000
	return p, err
}
