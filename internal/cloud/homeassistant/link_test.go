package homeassistant_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
)

// system is a machine whose clock the test sets.
type system struct {
	offset       atomic.Int64
	synchronised atomic.Bool
}

func (s *system) Wall(now time.Time) time.Time { return now.Add(time.Duration(s.offset.Load())) }
func (s *system) Synchronised() bool           { return s.synchronised.Load() }

// set steps the clock, with or without a time server.
func (s *system) set(offset time.Duration, synchronised bool) {
	s.offset.Store(int64(offset))
	s.synchronised.Store(synchronised)
}

// A house whose time server is out of reach keeps Home Assistant's doors for 72 hours, if its
// clock was right in this run and has not been stepped since.
func TestLink_holdover(t *testing.T) {
	for name, test := range map[string]struct {
		unset  bool                  // the clock was never right in this run
		during func(machine *system) // what happens without a time server
		passes time.Duration
		opens  bool
	}{
		"nine hours":         {passes: 9 * time.Hour, opens: true},
		"three days":         {passes: 72*time.Hour - 2*time.Minute, opens: true},
		"longer":             {passes: 72*time.Hour + time.Minute},
		"never right":        {unset: true, passes: time.Minute},
		"stepped":            {during: func(m *system) { m.set(2*time.Second, false) }, passes: time.Hour},
		"suspended":          {during: func(m *system) { m.set(time.Hour, false) }},
		"stepped back":       {during: func(m *system) { m.set(-time.Hour, false) }},
		"right again":        {during: func(m *system) { m.set(time.Hour, true) }, passes: time.Minute, opens: true},
		"contradicted":       {during: func(m *system) { m.set(-time.Hour, true) }, passes: time.Minute},
		"forged time":        {during: func(m *system) { m.set(1000*time.Hour, true) }, passes: time.Minute},
		"stepped to and fro": {during: func(m *system) { m.set(time.Hour, false); time.Sleep(time.Minute); m.set(0, false) }, passes: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := new(system)
				m.set(0, !test.unset)
				clock, err := machine.NewClock(machine.ClockConfig{
					Save:   func(context.Context, time.Time) error { return nil },
					Logger: slog.New(slog.DiscardHandler), Health: new(health.Registry), System: m,
				})
				if err != nil {
					t.Fatal(err)
				}
				go func() { _ = clock.Run(t.Context()) }()
				h := newHouse()
				l := h.link()
				l.Clock = clock
				time.Sleep(time.Minute)
				m.set(0, false)
				if time.Sleep(time.Minute); test.during != nil {
					test.during(m)
				}
				time.Sleep(test.passes)
				synctest.Wait()
				l.Take(pressAt(opens, "lock-1", clock.Now()), true)
				l.Take(pressAt(opens, "lock-2", clock.Now().Add(-11*time.Second)), true) // withheld by the broker
				l.Wait()
				want := 0
				if test.opens {
					want = 1
				}
				if n := h.unlocks(); n != want {
					t.Errorf("%d unlocks, want %d; trusted is %t; %+v", n, want, clock.Trusted(), h.records)
				}
			})
		})
	}
}

// A day without the broker has one line in the log for each reason, although the text of a
// reason differs each time.
func TestLink_down_logsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		attempts := 0
		var stalled atomic.Bool
		l := newHouse().link()
		l.Logger, l.Broker = slog.New(slog.NewTextHandler(&log, nil)), mqttclient.Broker{URL: "tcp://127.0.0.1"}
		l.Find = func(string) (string, error) {
			attempts++
			reason := "reset"
			if stalled.Load() {
				reason = "stalled"
			}
			return "", fmt.Errorf("read tcp 192.0.2.1:%d->192.0.2.7:1883: %s at %s", attempts, reason, time.Now())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		for _, next := range []bool{true, false} {
			time.Sleep(10 * time.Hour)
			synctest.Wait()
			stalled.Store(next)
		}
		time.Sleep(4 * time.Hour)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := bytes.Count(log.Bytes(), []byte("\n")); n != 2 {
			t.Errorf("%d lines and %d bytes of %d attempts:\n%.1000s", n, log.Len(), attempts, &log)
		}
		if c := l.Health.Conditions(); len(c) != 1 || c[0].Code != health.HomeAssistantDown {
			t.Errorf("conditions %+v", c)
		}
	})
}
