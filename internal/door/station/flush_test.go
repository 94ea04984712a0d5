package station_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// running is a service whose Run goes on in a synctest bubble.
type running struct {
	*fixture
	log  *bytes.Buffer
	stop func()
}

// startRun starts Run over n stations; one turn is a minute.
func startRun(t *testing.T, n int) *running {
	t.Helper()
	store, log := newMemory(), &bytes.Buffer{}
	for id := site.StationID(1); int(id) <= n; id++ {
		store.stations[id] = site.Station{ID: id, Locks: 2, Token: site.Secret("token-of-station-" + id.String())}
	}
	c := config(store, systemClock{})
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	r := run(t, c)
	r.log = log
	return r
}

// run starts Run of a service on the store of c; one turn is a minute. Station 1, where
// there is one, gets secret.
func run(t *testing.T, c station.Config) *running {
	t.Helper()
	r := &running{fixture: &fixture{store: c.Store.(*memory), changes: c.Changes, health: c.Health}}
	c.FlushEvery = time.Minute
	r.Service = open(t, c)
	if _, enrolled := r.Station(1); enrolled {
		if err := r.setSecret(t.Context(), 1, secret); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// turn waits until Run has flushed once more.
func (r *running) turn(turns int) [][]station.SavedState {
	time.Sleep(time.Duration(turns) * time.Minute)
	synctest.Wait()
	return r.store.saved()
}

func TestService_Run_savesWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 3)
		if got := r.turn(3); len(got) != 0 {
			t.Errorf("nothing changed, saved %+v", got)
		}
		if err := r.Report(2, []byte(`{"batteryVoltage":3.9,"firmware":"1.4.2","locks":[{"lockId":"lock-2","status":"locked"}]}`)); err != nil {
			t.Fatal(err)
		}
		heard := time.Now().UTC()
		got := r.turn(1)
		if len(got) != 1 || len(got[0]) != 1 {
			t.Fatalf("one station changed, saved %+v", got)
		}
		s := got[0][0]
		if s.Station != 2 || *s.BatteryVoltage != 3.9 || s.Firmware != "1.4.2" || !s.LastConnection.Equal(heard.Truncate(time.Millisecond)) {
			t.Errorf("saved %+v", s)
		}
		if len(s.Locks) != 2 || s.Locks[0].Status != site.Unknown || s.Locks[1].Status != site.Locked || s.Locks[1].ID != 2 || s.Locks[1].LastUpdated.IsZero() {
			t.Errorf("saved the locks %+v", s.Locks)
		}
		if got := r.turn(5); len(got) != 0 {
			t.Errorf("nothing changed any more, saved %+v", got)
		}
	})
}

// How a station answers commands is kept over a restart: until it reports again, its PUBACK alone
// is no success.
func TestService_AnswersByResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 3)
		for i, want := range []bool{true, false} {
			report := []string{`{"answers":"result"}`, `{}`}[i]
			if err := r.Report(2, []byte(report)); err != nil {
				t.Fatal(err)
			}
			saved := r.turn(1)[0]
			if len(saved) != 1 || saved[0].ByResult != want {
				t.Fatalf("%s: saved %+v", report, saved)
			}
			m := newMemory()
			m.stations[2], m.states[2] = site.Station{ID: 2, Locks: 2, Token: token}, saved[0]
			if next := open(t, config(m, &handClock{now: epoch()})); next.AnswersByResult(2) != want || r.AnswersByResult(2) != want {
				t.Errorf("%s: by result is not %t", report, want)
			}
		}
	})
}

// TestService_Run_coarse proves that a station which only says that it is there
// costs a write in nine minutes, so that a power cut costs ten at most.
func TestService_Run_coarse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 1)
		r.connect(t)
		if got := r.turn(1); len(got) != 1 {
			t.Fatalf("coming online was saved %d times", len(got))
		}
		writes := 0
		for range 180 { // an hour, heard of and reporting the same every 20 s
			time.Sleep(20 * time.Second)
			r.Heard(1)
			_ = r.Report(1, []byte(`{"locks":[{"lockId":"lock-1","status":"unknown"}]}`))
			writes += len(r.store.saved())
		}
		if writes < 6 || writes > 7 {
			t.Errorf("saved %d times in an hour, want every nine minutes", writes)
		}
		r.Disconnected(1, r.last(), "closed")
		if got := r.turn(1); len(got) != 1 || !r.store.state(1).LastConnection.Equal(r.state(t, 1).LastConnection.Time) {
			t.Errorf("going offline was saved %d times", len(got))
		}
	})
}

func TestService_Run_savesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 2)
		r.LockReported(2, 1, site.Locked)
		r.stop()
		got := r.store.saved()
		if len(got) != 1 || len(got[0]) != 1 || got[0][0].Station != 2 {
			t.Errorf("at the end saved %+v", got)
		}
	})
}

// TestService_Run_storeFails proves that nothing is forgotten while the storage
// fails, and that each failure is logged.
func TestService_Run_storeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 2)
		r.store.failWith(errors.New("no space left"))
		r.LockReported(1, 1, site.Locked)
		if got := r.turn(3); len(got) != 3 {
			t.Errorf("tried %d times in three turns", len(got))
		}
		r.LockReported(2, 1, site.Jammed)
		r.turn(1)
		r.store.failWith(nil)
		if got := r.turn(1); len(got) != 1 || len(got[0]) != 2 {
			t.Errorf("when storage was back, saved %+v", got)
		}
		if r.store.state(1).Locks[0].Status != site.Locked || r.store.state(2).Locks[0].Status != site.Jammed {
			t.Errorf("saved %+v and %+v", r.store.state(1), r.store.state(2))
		}
		if got := r.turn(2); len(got) != 0 {
			t.Errorf("nothing changed any more, saved %+v", got)
		}
		r.stop()
		if log := r.log.String(); strings.Count(log, "level=WARN") != 4 {
			t.Errorf("logged\n%s", log)
		}
	})
}

// TestService_Run_forgottenLock proves that a lock that was removed does not
// come back from the disk.
func TestService_Run_forgottenLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 1)
		r.LockReported(1, 2, site.Jammed)
		r.turn(1)
		if _, err := r.Update(t.Context(), admin(), 1, patch("", 1, site.HomeAssistantState)); err != nil {
			t.Fatal(err)
		}
		r.turn(1)
		if s := r.store.state(1); len(s.Locks) != 1 {
			t.Errorf("saved %+v", s)
		}
	})
}

// TestService_Run_forgottenLock_restart proves it for a gateway that stopped
// before it could save.
func TestService_Run_forgottenLock_restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.stations[1] = site.Station{ID: 1, Locks: 1, Token: token}
		m.states[1] = station.SavedState{Station: 1, Locks: []site.Lock{{ID: 1, Status: site.Locked}, {ID: 2, Status: site.Jammed}}}
		s := open(t, config(m, systemClock{}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if s := m.state(1); len(s.Locks) != 1 || s.Locks[0].Status != site.Locked {
			t.Errorf("saved %+v", s)
		}
	})
}

// TestService_Run_removed proves that a station removed after it changed spoils
// no batch.
func TestService_Run_removed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 2)
		r.LockReported(1, 1, site.Locked)
		r.LockReported(2, 1, site.Locked)
		if err := r.Remove(t.Context(), admin(), 1); err != nil {
			t.Fatal(err)
		}
		if got := r.turn(1); len(got) != 1 || len(got[0]) != 1 || got[0][0].Station != 2 {
			t.Errorf("saved %+v", got)
		}
	})
}

// TestService_Run_removedMeanwhile proves the same of one that is removed just
// when Run has begun its turn.
func TestService_Run_removedMeanwhile(t *testing.T) {
	m, clock := newMemory(), &hookClock{}
	for id := site.StationID(1); id <= 2; id++ {
		m.stations[id] = site.Station{ID: id, Locks: 1, Token: site.Secret("token-of-station-" + id.String())}
	}
	s := open(t, config(m, clock))
	s.LockReported(1, 1, site.Locked)
	s.LockReported(2, 1, site.Locked)
	remove := func() {
		if err := s.Remove(t.Context(), admin(), 2); err != nil {
			t.Error(err)
		}
	}
	clock.within.Store(&remove)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := m.saved(); len(got) != 1 || len(got[0]) != 1 || got[0][0].Station != 1 {
		t.Errorf("saved %+v", got)
	}
}
