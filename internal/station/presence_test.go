package station_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/station"
)

func TestService_presence(t *testing.T) {
	f := setup(t, 2)
	f.connect(t)
	if st := f.state(t, 1); st.Status != site.Online || !st.LastConnection.Equal(epoch()) || f.Online() != 1 {
		t.Errorf("after connecting: %+v, %d online", st, f.Online())
	}
	if st := f.state(t, 2); st.Status != site.Offline {
		t.Errorf("the other station: %+v", st)
	}
	f.clock.advance(time.Minute)
	f.Heard(1)
	f.clock.advance(time.Minute)
	f.Disconnected(1, "the connection was lost")
	f.Disconnected(1, "the connection was lost")
	if st := f.state(t, 1); st.Status != site.Offline || !st.LastConnection.Equal(epoch().Add(time.Minute)) || f.Online() != 0 {
		t.Errorf("after disconnecting: %+v, %d online", st, f.Online())
	}
	f.Disconnected(9, "the connection was lost")
	f.Heard(9)
	want := []site.Record{
		{Kind: site.KindStationOnline, Facts: site.Facts{Station: 1, Remote: "192.0.2.7:51000"}},
		{Kind: site.KindStationOffline, Facts: site.Facts{Station: 1, Detail: "the connection was lost"}},
	}
	if got := f.store.journalled(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("recorded %+v\nwant     %+v", got, want)
	}
}

func TestService_Connected_takeover(t *testing.T) {
	f := setup(t, 1)
	f.connect(t)
	events := f.Latest()
	f.connect(t)
	if f.Online() != 1 || f.Latest() != events {
		t.Errorf("%d online, %d events", f.Online(), f.Latest()-events)
	}
	got := f.store.journalled()
	if len(got) != 2 || got[1].Kind != site.KindStationOnline || got[1].Detail != "a second connection took over" {
		t.Errorf("recorded %+v", got)
	}
	if err := f.Connected(1, 0, ""); err == nil {
		t.Error("a connection of no generation took over")
	}
	if f.Online() != 1 {
		t.Error("a refused connection ended the one that was there")
	}
}

// TestService_presence_flapping proves that a station which comes and goes cannot
// fill the journal, and that nothing goes uncounted.
func TestService_presence_flapping(t *testing.T) {
	f := setup(t, 1)
	generation, _ := f.Authenticate(1, secret)
	var times []time.Time
	told := 0
	for range 600 { // 10 minutes
		before := len(f.store.journalled())
		if err := f.Connected(1, generation, ""); err != nil {
			t.Fatal(err)
		}
		f.Disconnected(1, "closed")
		for range len(f.store.journalled()) - before {
			times = append(times, f.clock.Now())
		}
		f.clock.advance(time.Second)
	}
	for i := range times {
		if i >= 6 && times[i].Sub(times[i-6]) < time.Minute {
			t.Fatalf("seven records within %s", times[i].Sub(times[i-6]))
		}
	}
	f.clock.advance(time.Hour)
	if err := f.Connected(1, generation, ""); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.store.journalled() {
		told += 1 + r.Count
	}
	if told != 1201 || len(times) < 30 {
		t.Errorf("%d records account for %d changes of 1201", len(times), told)
	}
}

// TestService_Run_catchesUp proves that the journal's last word becomes true.
func TestService_Run_catchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 1)
		generation, _ := r.Authenticate(1, secret)
		for range 2 {
			if err := r.Connected(1, generation, ""); err != nil {
				t.Fatal(err)
			}
			r.Disconnected(1, "closed")
		}
		if got := r.store.journalled(); len(got) != 3 || got[2].Kind != site.KindStationOnline {
			t.Fatalf("recorded %+v; the test wants the last change left out", got)
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		got := r.store.journalled()
		if len(got) != 4 || got[3].Kind != site.KindStationOffline || got[3].Count != 0 || got[3].Detail == "" {
			t.Errorf("after a minute the journal says %+v", got)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := r.store.journalled(); len(got) != 4 {
			t.Errorf("caught up twice: %+v", got)
		}
	})
}

// TestService_locks_flapping proves the same of locks.
func TestService_locks_flapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t, 1)
		for range 500 {
			r.LockReported(1, 2, site.Unlocked)
			r.LockReported(1, 2, site.Locked)
		}
		r.LockReported(1, 1, site.Jammed)
		if got := len(r.store.journalled()); got != 2*site.MaxLocks {
			t.Errorf("%d records at once, want %d", got, 2*site.MaxLocks)
		}
		r.LockReported(1, 2, site.Unlocked)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		last, told := map[string]site.LockStatus{}, 0
		for _, record := range r.store.journalled(site.KindLockChanged) {
			last[record.Lock] = record.Status
			told += 1 + record.Count
		}
		if last["lock-1"] != site.Jammed || last["lock-2"] != site.Unlocked {
			t.Errorf("the journal ends with %v", last)
		}
		if told < 1002 || told > 1003 { // the last one told may have been counted as left out too
			t.Errorf("the records account for %d changes of 1002", told)
		}
	})
}

// TestService_locks_ordinary proves that ordinary use is never left out: every
// lock of the largest station opening and closing within one minute.
func TestService_locks_ordinary(t *testing.T) {
	f := setup(t, 0)
	if _, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 1, Locks: site.MaxLocks}); err != nil {
		t.Fatal(err)
	}
	for _, status := range []site.LockStatus{site.Unlocked, site.Locked} {
		for lock := site.LockID(1); lock <= site.MaxLocks; lock++ {
			f.LockReported(1, lock, status)
		}
		f.clock.advance(10 * time.Second)
	}
	got := f.store.journalled(site.KindLockChanged)
	if len(got) != 2*site.MaxLocks {
		t.Errorf("%d records of %d changes", len(got), 2*site.MaxLocks)
	}
}
