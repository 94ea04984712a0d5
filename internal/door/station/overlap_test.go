package station_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// changes are the changes of a station, by what they are called.
func changes() map[string]func(context.Context, *fixture, site.StationID) error {
	return map[string]func(context.Context, *fixture, site.StationID) error{
		"update": func(ctx context.Context, f *fixture, id site.StationID) error {
			_, err := f.Update(ctx, admin(), id, patch("Renamed", 1, site.HomeAssistantState))
			return err
		},
		"rotate": func(ctx context.Context, f *fixture, id site.StationID) error {
			_, err := f.Rotate(ctx, admin(), id)
			return err
		},
		"remove": func(ctx context.Context, f *fixture, id site.StationID) error { return f.Remove(ctx, admin(), id) },
		"enrol":  enrolLater,
	}
}

// enrolLater enrols another station for every id.
func enrolLater(ctx context.Context, f *fixture, id site.StationID) error {
	_, err := f.Enrol(ctx, admin(), station.EnrolRequest{ID: 1000 + id, Locks: 1})
	return err
}

// hold lets every use case of the store wait until release, and counts those that
// are within.
func (f *fixture) hold() (inside *atomic.Int64, release func()) {
	inside = new(atomic.Int64)
	gate := make(chan struct{})
	f.store.hook(func(context.Context) { inside.Add(1); <-gate })
	return inside, func() { close(gate) }
}

// TestService_inTurn proves that changes of one station are made one after another,
// and that a caller that stops waiting for its turn gets an error.
func TestService_inTurn(t *testing.T) {
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, 2)
				inside, release := f.hold()
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() { _ = change(context.Background(), f, 1) })
				}
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				late := make(chan error, 1)
				go func() { late <- change(ctx, f, 2) }()
				synctest.Wait()
				if got := inside.Load(); got != 1 {
					t.Errorf("%d are inside the store at once", got)
				}
				cancel()
				if err := <-late; !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) {
					t.Errorf("who gave up got %v", err)
				}
				release()
				all.Wait()
				if err := f.changes.Settle(t.Context()); err != nil {
					t.Error(err)
				}
				f.agree(t)
			})
		})
	}
}

// TestService_storeStalls proves that a change waits for a stalled store no longer than
// its deadline, whatever its caller would, and has changed nothing then but what it revokes.
func TestService_storeStalls(t *testing.T) {
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, 1)
				before := f.Stations()
				f.store.hook(func(ctx context.Context) { <-ctx.Done() })
				begun := time.Now()
				if err := change(context.Background(), f, 1); !fault.Is(err, fault.Unavailable) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begun); took != amend.StoreDeadline {
					t.Errorf("took %s", took)
				}
				if revokes := name == "rotate" || name == "remove"; slices.Equal(f.Stations(), before) == revokes {
					t.Errorf("changed to %+v", f.Stations())
				}
				f.store.hook(nil)
				if err := f.changes.Settle(t.Context()); err != nil {
					t.Error(err)
				}
				f.agree(t)
			})
		})
	}
}

// agree requires that memory and store hold the same stations.
func (f *fixture) agree(t *testing.T) {
	t.Helper()
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	stations := f.Stations()
	if len(stations) != len(f.store.stations) {
		t.Errorf("%d stations in memory, %d in the store", len(stations), len(f.store.stations))
	}
	for _, st := range stations {
		if f.store.stations[st.ID] != st {
			t.Errorf("in memory %+v, in the store %+v", st, f.store.stations[st.ID])
		}
		if named, ok := f.ByToken(st.Token); !ok || named != st {
			t.Errorf("the token of %+v names %+v", st, named)
		}
	}
}

// TestService_overlap_conflict proves that of several who want the same id or token
// at the same time one gets it.
func TestService_overlap_conflict(t *testing.T) {
	const n = 5
	for name, change := range map[string]func(f *fixture, i site.StationID) error{
		"one id": func(f *fixture, i site.StationID) error {
			_, err := f.Enrol(context.Background(), admin(), station.EnrolRequest{ID: 99, Locks: 1, Token: site.Secret(fmt.Sprint("a-token-", i))})
			return err
		},
		"one token": func(f *fixture, i site.StationID) error {
			_, err := f.Enrol(context.Background(), admin(), station.EnrolRequest{ID: 100 + i, Locks: 1, Token: "the-same-token"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, n)
				inside, release := f.hold()
				var won atomic.Int64
				var all sync.WaitGroup
				for i := site.StationID(1); i <= n; i++ {
					all.Go(func() {
						if err := change(f, i); err == nil {
							won.Add(1)
						} else if !fault.Is(err, fault.Conflict) {
							t.Errorf("who lost got %v", err)
						}
					})
				}
				synctest.Wait()
				release()
				all.Wait()
				if won.Load() != 1 || inside.Load() != 1 {
					t.Errorf("%d of %d got it, with %d writes", won.Load(), n, inside.Load())
				}
				f.agree(t)
			})
		})
	}
}

// TestService_Run_removedWhileSaving proves that a station can go while the states
// are being saved, and spoils nothing.
func TestService_Run_removedWhileSaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 2)
		r.LockReported(1, 1, site.Locked)
		r.LockReported(2, 1, site.Locked)
		r.store.hookSaving(func() {
			if err := r.Remove(t.Context(), admin(), 2); err != nil {
				t.Error(err)
			}
		})
		if got := r.turn(1); len(got) != 1 || len(got[0]) != 2 {
			t.Errorf("saved %+v", got)
		}
		r.stop()
		if r.store.state(1).Station != 1 || r.store.state(2).Station != 0 || r.log.Len() != 0 {
			t.Errorf("kept %+v and %+v, logged %s", r.store.state(1), r.store.state(2), r.log)
		}
		r.agree(t)
	})
}

// TestService_Run_enrolledWhileSaving proves that what a removed station had said is
// not kept as the state of a new one with its id.
func TestService_Run_enrolledWhileSaving(t *testing.T) {
	f := setup(t, 1)
	f.LockReported(1, 1, site.Jammed)
	f.store.hookSaving(func() {
		if err := f.Remove(t.Context(), admin(), 1); err != nil {
			t.Error(err)
		}
		f.clock.advance(time.Millisecond)
		if _, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 1, Locks: 1}); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx); err != nil {
		t.Error(err)
	}
	if s := f.store.state(1); s.Station != 0 {
		t.Errorf("kept %+v of the station that had gone", s)
	}
	f.agree(t)
}
