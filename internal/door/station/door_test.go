package station_test

import (
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/site"
)

// A door is part of the state from its first report on, and is saved; a report of the door
// alone leaves the lock's status and its age as they are.
func TestService_Report_door(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 1)
		lock := func() site.Lock {
			state, _ := r.State(1)
			return state.Locks[0]
		}
		report := func(text string) {
			t.Helper()
			if err := r.Report(1, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		report(`{"locks":[{"lockId":"lock-1","status":"locked"}]}`)
		before := lock()
		if before.Door != "" || !before.DoorSince.IsZero() {
			t.Errorf("without a sensor: %+v", before)
		}
		time.Sleep(time.Second)
		opened := site.At(time.Now())
		report(`{"locks":[{"lockId":"lock-1","door":"open"}]}`)
		want := before
		want.Door, want.DoorSince = site.DoorOpen, opened
		if got := lock(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		events, _ := r.EventsSince(0, 1)
		if last := events[len(events)-1].State.Locks[0]; last != want {
			t.Errorf("the event states %+v, want %+v", last, want)
		}
		time.Sleep(time.Second)
		report(`{"locks":[{"lockId":"lock-1","door":"open"}]}`)
		if got := lock(); got != want {
			t.Errorf("after the same report: %+v, want %+v", got, want)
		}
		if err := r.Report(1, []byte(`{"locks":[{"lockId":"lock-3","door":"open"}]}`)); err == nil {
			t.Error("the door of a lock that the station does not have was accepted")
		}
		saves := r.turn(1)
		if saved := saves[len(saves)-1][0].Locks[0]; saved != want {
			t.Errorf("saved %+v, want %+v", saved, want)
		}
		again := open(t, config(r.store, systemClock{}))
		if state, _ := again.State(1); state.Locks[0] != want {
			t.Errorf("after a restart %+v, want %+v", state.Locks[0], want)
		}
	})
}

// A clock that is set back, as an administrator may, keeps no change out of the journal.
func TestService_records_clockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 1)
		change := func(status, door string) {
			t.Helper()
			f.connect(t)
			if err := f.Report(1, []byte(`{"locks":[{"lockId":"lock-1","status":"`+status+`","door":"`+door+`"}]}`)); err != nil {
				t.Fatal(err)
			}
			f.Disconnected(1, f.last(), "closed")
		}
		change("unlocked", "open")
		before := len(f.store.journalled())
		f.clock.advance(-365 * 24 * time.Hour)
		time.Sleep(time.Second)
		change("locked", "closed")
		if n := len(f.store.journalled()); n != 2*before {
			t.Errorf("%d records before the clock was set back, %d after it", before, n-before)
		}
	})
}
