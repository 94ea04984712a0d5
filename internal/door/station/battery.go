package station

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gatehouse/internal/site"
)

const (
	// dayLength is how long a day is: days are those of UTC.
	dayLength = 24 * time.Hour

	// A forecast is made from up to maxTrend points, the newest, and reaches maxForecast
	// days. The newest may be current days old.
	maxTrend, maxForecast, current = 30, 1000, 7
	// leastFall is by how many volts a battery must have fallen over all those points.
	leastFall = 0.02
	// changed is by how many volts a battery rises only when it is changed or charged.
	changed = 0.1
)

// BatteryPoint is the first voltage that a station reported on one day.
type BatteryPoint struct {
	Day   int64 // since 1970, UTC
	Volts float64
}

func dayOf(t time.Time) int64 { return t.Unix() / int64(dayLength/time.Second) }

// Date returns the day as "2026-11-01".
func (p BatteryPoint) Date() string {
	return time.Unix(p.Day*int64(dayLength/time.Second), 0).UTC().Format(time.DateOnly)
}

// noteBattery notes the first voltage of a day. A clock that is not trusted knows no day.
func (s *Service) noteBattery(l *live, volts float64, now time.Time) {
	if day := dayOf(now); day != l.point.Day && s.cfg.Clock.Trusted() {
		l.point, l.dirty = BatteryPoint{day, volts}, true
	}
}

// Battery returns the voltage of a station's battery on each day, the oldest first, and in
// how many days it will be low if it continues to fall like that; nil where that cannot be
// told. NotFound; Unavailable when the storage fails.
func (s *Service) Battery(ctx context.Context, id site.StationID) (points []BatteryPoint, daysLeft *int, err error) {
	if points, err = s.cfg.Store.Battery(ctx, id); err != nil {
		return nil, nil, err
	}
	var latest BatteryPoint
	if !s.with(id, func(l *live) { latest = l.point }) {
		return nil, nil, errNotFound()
	}
	if n := len(points); latest.Volts != 0 && (n == 0 || points[n-1].Day < latest.Day) {
		points = append(points, latest)
	}
	return points, forecast(points, s.cfg.BatteryLow, dayOf(s.cfg.Clock.Now())), nil
}

// forecast returns in how many days the battery falls below low; nil where the points do
// not show that, as for some weeks after it was changed. The line goes through the medians
// of the first and the last five points, which a few wrong points do not turn.
func forecast(points []BatteryPoint, low float64, today int64) *int {
	points = points[max(len(points)-maxTrend, 0):]
	n := len(points)
	if low == 0 || n < 10 || today-points[n-1].Day > current {
		return nil
	}
	from, to := median(points[:5]), median(points[n-5:])
	fall := from.Volts - to.Volts
	if fall < leastFall || points[n-1].Volts-to.Volts >= changed {
		return nil
	}
	days := (to.Volts-low)/fall*float64(to.Day-from.Day) - float64(today-to.Day)
	if days > maxForecast {
		return nil
	}
	whole := max(int(days), 0)
	return &whole
}

// median returns the median voltage of five points, on the day of the third.
func median(five []BatteryPoint) BatteryPoint {
	sorted := slices.SortedFunc(slices.Values(five), func(a, b BatteryPoint) int { return cmp.Compare(a.Volts, b.Volts) })
	return BatteryPoint{five[2].Day, sorted[2].Volts}
}
