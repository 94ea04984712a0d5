package station_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// history returns a point for each day up to today.
func history(today int64, volts ...float64) (points []station.BatteryPoint) {
	for i, v := range volts {
		points = append(points, station.BatteryPoint{Day: today - int64(len(volts)-1-i), Volts: v})
	}
	return points
}

// line returns voltages that fall by perDay.
func line(n int, from, perDay float64) (volts []float64) {
	for i := range n {
		volts = append(volts, from-perDay*float64(i))
	}
	return volts
}

// A forecast is made where the voltage falls visibly and for long enough, and is not
// turned by a few wrong points.
func TestForecast(t *testing.T) {
	const today, none = 20_000, -1
	falling := line(30, 3.89, 0.01) // 3.60 V today, low in 30 days
	spiked := slices.Clone(falling)
	spiked[5], spiked[12], spiked[29] = 0.1, 3.0, 2.5
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for figures of a test
	noise, noisy := []float64{}, []float64{}
	for i := range 60 {
		noise = append(noise, 3.7+0.02*random.Float64())
		noisy = append(noisy, 3.9-0.005*float64(i)+0.01*random.Float64()) // about 3.61 V, low in 62 days
	}
	for name, c := range map[string]struct {
		points    []station.BatteryPoint
		low       float64
		want, off int
	}{
		"falling":          {history(today, falling...), 3.3, 30, 1},
		"with wrong days":  {history(today, spiked...), 3.3, 30, 1},
		"with noise":       {history(today, noisy...), 3.3, 62, 10},
		"low already":      {history(today, falling...), 3.7, 0, 0},
		"flat":             {history(today, line(60, 3.7, 0)...), 3.3, none, 0},
		"rising":           {history(today, line(60, 3.7, -0.01)...), 3.3, none, 0},
		"only noise":       {history(today, noise...), 3.3, none, 0},
		"too few days":     {history(today, line(9, 3.9, 0.01)...), 3.3, none, 0},
		"changed lately":   {history(today, slices.Concat(falling, line(5, 4.1, 0.01))...), 3.3, none, 0},
		"changed":          {history(today, slices.Concat(falling, line(30, 4.1, 0.02))...), 3.3, 11, 1},
		"changed today":    {history(today, slices.Concat(falling, line(1, 4.1, 0))...), 3.3, none, 0},
		"too far":          {history(today, line(60, 3.9, 0.0004)...), 3.3, none, 0},
		"not heard of":     {history(today-8, falling...), 3.3, none, 0},
		"no mark":          {history(today, falling...), 0, none, 0},
		"nothing reported": {nil, 3.3, none, 0},
	} {
		got := none
		if days := station.Forecast(c.points, c.low, today); days != nil {
			got = *days
		}
		if got < c.want-c.off || got > c.want+c.off {
			t.Errorf("%s: %d days left, want %d", name, got, c.want)
		}
	}
}

// A station has one point for each day, the first voltage, whatever it reports and however
// often; it is written with the states, once, and is known from memory before.
func TestService_Battery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 2)
		report := func(volts float64) {
			t.Helper()
			if err := r.Service.Report(1, battery(volts)); err != nil {
				t.Fatal(err)
			}
		}
		first := station.BatteryPoint{Day: time.Now().Unix() / 86400, Volts: 3.9}
		want := func(s *station.Service, want ...station.BatteryPoint) {
			t.Helper()
			got, days, err := s.Battery(t.Context(), 1)
			if err != nil || days != nil || !slices.Equal(got, want) {
				t.Errorf("%+v, %v, %v: want %+v", got, days, err, want)
			}
		}
		_ = r.Service.Report(1, battery(1e9)) // a lie
		for i := range 2000 {
			report(3.9 - float64(i%7)/10)
		}
		want(r.Service, first)
		r.store.failWith(errors.New("no space left"))
		r.turn(2)
		r.store.failWith(nil)
		if saves := r.turn(3); len(saves) != 1 || saves[0][0].Point != first {
			t.Errorf("saved %+v", saves)
		}
		time.Sleep(24 * time.Hour)
		second := station.BatteryPoint{Day: first.Day + 1, Volts: 3.8}
		report(3.8)
		if saves := r.turn(3); len(saves) != 1 || saves[0][0].Point != second {
			t.Errorf("saved %+v", saves)
		}
		r.stop()
		again := open(t, config(r.store, systemClock{}))
		if err := again.Report(1, battery(3.7)); err != nil {
			t.Fatal(err)
		}
		want(again, station.BatteryPoint{Day: second.Day, Volts: 3.7}) // the test's store forgets what was looked at
		if _, _, err := again.Battery(t.Context(), 77); err == nil {
			t.Error("a station that is not there has a history")
		}
	})
}

// untrusted is a clock that knows no time.
type untrusted struct{ systemClock }

func (untrusted) Trusted() bool { return false }

func TestService_Battery_untrustedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.stations[1] = site.Station{ID: 1, Locks: 1, Token: token}
		s := open(t, config(m, untrusted{}))
		if err := s.Report(1, battery(3.7)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Battery(t.Context(), 1); err != nil || len(got) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
