package station_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
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
	f.Disconnected(1, f.last(), "the connection was lost")
	f.Disconnected(1, f.last(), "the connection was lost")
	if st := f.state(t, 1); st.Status != site.Offline || !st.LastConnection.Equal(epoch().Add(time.Minute)) || f.Online() != 0 {
		t.Errorf("after disconnecting: %+v, %d online", st, f.Online())
	}
	f.Disconnected(9, f.last(), "the connection was lost")
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
	if err := f.Connected(1, f.next(), 0, ""); err == nil {
		t.Error("a connection of no generation took over")
	}
	if f.Online() != 1 {
		t.Error("a refused connection ended the one that was there")
	}
}

// The end of a connection that is not the station's present one changes nothing, whenever
// it is heard of; nor does the beginning of one that is older.
func TestService_Disconnected_otherConnection(t *testing.T) {
	f := setup(t, 1)
	f.connect(t)
	old := f.last()
	f.connect(t)
	if f.Disconnected(1, old, "taken over") || f.state(t, 1).Status != site.Online {
		t.Error("the end of the old connection took the station offline")
	}
	generation, _ := f.Authenticate(1, secret)
	wantKind(t, f.Connected(1, old, generation, ""), fault.Conflict)
	if !f.Disconnected(1, f.last(), "closed") || f.state(t, 1).Status != site.Offline {
		t.Error("the end of the present connection left the station online")
	}
}

// A connection that is refused, because the secret was replaced while it authenticated,
// leaves presence with the one before.
func TestService_Connected_refusedLeavesPresence(t *testing.T) {
	f := setup(t, 1)
	f.connect(t)
	first := f.last()
	generation, _ := f.Authenticate(1, secret)
	if _, err := f.Rotate(t.Context(), admin(), 1); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.Connected(1, f.next(), generation, ""), fault.Unauthenticated)
	if !f.Disconnected(1, first, "revoked") || f.Online() != 0 {
		t.Errorf("%d stations are online, none has a connection", f.Online())
	}
}

// TestService_presence_flapping proves that a station which comes and goes cannot
// fill the journal, and that nothing goes uncounted.
func TestService_presence_flapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 1)
		generation, _ := f.Authenticate(1, secret)
		var times []time.Time
		told := 0
		for range 600 { // 10 minutes
			before := len(f.store.journalled())
			if err := f.Connected(1, f.next(), generation, ""); err != nil {
				t.Fatal(err)
			}
			f.Disconnected(1, f.last(), "closed")
			for range len(f.store.journalled()) - before {
				times = append(times, f.clock.Now())
			}
			f.pass(time.Second)
		}
		for i := range times {
			if i >= 60 && times[i].Sub(times[i-60]) < time.Minute {
				t.Fatalf("61 records within %s", times[i].Sub(times[i-60]))
			}
		}
		f.pass(time.Hour)
		if err := f.Connected(1, f.next(), generation, ""); err != nil {
			t.Fatal(err)
		}
		for _, r := range f.store.journalled() {
			told += 1 + r.Count
		}
		if told != 1201 || len(times) < 300 {
			t.Errorf("%d records account for %d changes of 1201", len(times), told)
		}
	})
}

// TestService_presence_ordinary proves that someone who reconnects a station again
// and again finds every change in the journal.
func TestService_presence_ordinary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 1)
		generation, _ := f.Authenticate(1, secret)
		for range 15 {
			if err := f.Connected(1, f.next(), generation, ""); err != nil {
				t.Fatal(err)
			}
			f.Disconnected(1, f.last(), "closed")
		}
		for range 15 { // the same at the pace of the refill
			f.pass(4 * time.Second)
			if err := f.Connected(1, f.next(), generation, ""); err != nil {
				t.Fatal(err)
			}
			f.Disconnected(1, f.last(), "closed")
		}
		got := f.store.journalled()
		if len(got) != 60 {
			t.Errorf("%d records of 60 changes", len(got))
		}
		for _, r := range got {
			if r.Count != 0 {
				t.Errorf("the record stands for several: %+v", r)
			}
		}
	})
}

// TestService_Run_catchesUp proves that the journal's last word becomes true within
// seconds, and that whatever was left out is counted.
func TestService_Run_catchesUp(t *testing.T) {
	for name, c := range map[string]struct {
		again bool // whether the station is back in the end
		kind  site.Kind
		count int
	}{
		"gone": {false, site.KindStationOffline, 2},
		"back": {true, site.KindStationOnline, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startRun(t, 1)
				generation, _ := r.Authenticate(1, secret)
				connect := func() {
					if err := r.Connected(1, r.next(), generation, ""); err != nil {
						t.Fatal(err)
					}
				}
				connect() // taken over from at once
				for range 15 {
					connect()
					r.Disconnected(1, r.last(), "closed")
				}
				connect()
				r.Disconnected(1, r.last(), "closed") // three are left out
				if c.again {
					connect()
				}
				if got := r.store.journalled(); len(got) != 30 {
					t.Fatalf("recorded %d; the test wants the last changes left out", len(got))
				}
				time.Sleep(5*time.Second + time.Millisecond)
				synctest.Wait()
				got := r.store.journalled()
				if len(got) != 31 || got[30].Kind != c.kind || got[30].Count != c.count || got[30].Detail == "" {
					t.Errorf("after five seconds the journal says %+v", got[30:])
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if got := r.store.journalled(); len(got) != 31 {
					t.Errorf("caught up twice: %+v", got[30:])
				}
			})
		})
	}
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
		if got := len(r.store.journalled()); got != 60+1 { // of the second lock and the first
			t.Errorf("%d records at once", got)
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
