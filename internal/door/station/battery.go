package station

import (
	"context"
	"math"
	"slices"
	"time"

	"gatehouse/internal/site"
)

const (
	// dayLength is how long a day is: days are those of UTC.
	dayLength = 24 * time.Hour
	// maxUnsaved bounds the points of one station that wait for the disk.
	maxUnsaved = 8

	// changed is by how many volts a battery rises only when it is changed or charged.
	changed = 0.1
	// A forecast is made from up to maxTrend points, the newest, of at least minTrend, and
	// reaches maxForecast days.
	minTrend, maxTrend, maxForecast = 10, 90, 1000
	// leastFall is by how many volts a battery must have fallen over all those points.
	leastFall = 0.02
	// current is how many days old the newest of them may be.
	current = 7
)

// BatteryPoint is the least voltage that a station reported on one day.
type BatteryPoint struct {
	Day   int64 // since 1970, UTC
	Volts float64
}

// Date returns the day as "2026-11-01".
func (p BatteryPoint) Date() string {
	return time.Unix(p.Day*int64(dayLength/time.Second), 0).UTC().Format(time.DateOnly)
}

// noteBattery notes a voltage among those of its day. A clock that is not trusted knows no
// day.
func (s *Service) noteBattery(l *live, volts float64, now time.Time) {
	if !s.cfg.Clock.Trusted() {
		return
	}
	day := now.Unix() / int64(dayLength/time.Second)
	switch {
	case l.today.Volts == 0 || l.today.Day != day:
		if l.today.Volts != 0 {
			l.points = append(l.points[max(len(l.points)-maxUnsaved+1, 0):], l.today)
		}
		l.today, l.dirty = BatteryPoint{day, volts}, true
	case volts < l.today.Volts:
		l.today.Volts = volts
	}
}

// Battery returns the least voltage of a station's battery on each day, the oldest first,
// and in how many days it will be low if it continues to fall like that; nil where that
// cannot be told. NotFound; Unavailable when the storage fails.
func (s *Service) Battery(ctx context.Context, id site.StationID) (points []BatteryPoint, daysLeft *int, err error) {
	l, ok := s.find(id)
	if !ok {
		return nil, nil, errNotFound()
	}
	points, err = s.cfg.Store.Battery(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	latest := slices.Clone(l.points)
	if l.today.Volts != 0 {
		latest = append(latest, l.today)
	}
	l.mu.Unlock()
	for _, p := range latest { // those that are stored already, too
		i, found := slices.BinarySearchFunc(points, p.Day, func(p BatteryPoint, day int64) int { return int(p.Day - day) })
		if found {
			points[i].Volts = min(points[i].Volts, p.Volts)
		} else {
			points = slices.Insert(points, i, p)
		}
	}
	today := s.cfg.Clock.Now().Unix() / int64(dayLength/time.Second)
	return points, forecast(points, s.cfg.BatteryLow, today), nil
}

// forecast returns in how many days the battery falls below low; nil where the points do
// not show that. The line through them is that of Theil and Sen: the median of the slopes
// between all pairs, which a few wrong points do not turn.
func forecast(points []BatteryPoint, low float64, today int64) *int {
	points = trend(points)
	n := len(points)
	if low == 0 || n < minTrend || today-points[n-1].Day > current {
		return nil
	}
	var slopes []float64
	for i, p := range points {
		for _, q := range points[i+1:] {
			slopes = append(slopes, (q.Volts-p.Volts)/float64(q.Day-p.Day))
		}
	}
	slope := median(slopes)
	levels, off := make([]float64, n), make([]float64, n) // by the line, today
	for i, p := range points {
		levels[i] = p.Volts + slope*float64(today-p.Day)
	}
	level := median(levels)
	for i, v := range levels {
		off[i] = math.Abs(v - level)
	}
	fall := -slope * float64(points[n-1].Day-points[0].Day)
	if fall < leastFall || fall < 2*median(off) {
		return nil
	}
	days := max((level-low)/-slope, 0)
	if days > maxForecast {
		return nil
	}
	whole := int(days)
	return &whole
}

// trend returns the newest points, from the last change of the battery on. One wrong point
// is no change: the middle of three counts.
func trend(points []BatteryPoint) []BatteryPoint {
	points = points[max(len(points)-maxTrend, 0):]
	middle := func(points []BatteryPoint) float64 {
		volts := make([]float64, len(points))
		for i, p := range points {
			volts[i] = p.Volts
		}
		return median(volts)
	}
	for i := len(points) - 1; i > 0; i-- {
		if middle(points[i:min(i+3, len(points))])-middle(points[max(i-3, 0):i]) >= changed {
			return points[i:]
		}
	}
	return points
}

// median returns the median of at least one number, which it sorts.
func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
