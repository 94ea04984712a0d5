package station_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// TestService_hotPathsDuringWrite proves that nothing on the way of a door or a
// station waits while storage hangs in an administrator's change.
func TestService_hotPathsDuringWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 1)
		entered, release := make(chan struct{}), make(chan struct{})
		f.store.hook(func(context.Context) {
			close(entered)
			<-release
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := f.Update(t.Context(), admin(), 1, patch("Renamed", 1, site.HomeAssistantState)); err != nil {
				t.Error(err)
			}
		})
		<-entered
		f.connect(t)
		f.Heard(1)
		if err := f.Report(1, []byte(`{"batteryVoltage":4}`)); err != nil {
			t.Error(err)
		}
		f.LockReported(1, 1, site.Unlocked)
		if st := f.state(t, 1); st.Status != site.Online || *st.BatteryVoltage != 4 || len(st.Locks) != 2 {
			t.Errorf("during the write the state is %+v", st)
		}
		if st, ok := f.ByToken(token); !ok || st.Name != "North entrance" {
			t.Errorf("during the write the station is %+v", st)
		}
		close(release)
		wg.Wait()
		if st, _ := f.Station(1); st.Name != "Renamed" || st.Locks != 1 {
			t.Errorf("after the write the station is %+v", st)
		}
	})
}

// TestService_concurrent lets everything happen at once, for the race detector,
// and checks that the count of stations online adds up and that the store has what
// memory has.
func TestService_concurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 8)
		var live [9]atomic.Uint64 // the connection of each station
		f.OnRevoked(func(id site.StationID) {
			f.Disconnected(id, site.ConnectionID(live[id].Load()), "the secret was replaced")
		})
		var wg sync.WaitGroup
		for id := site.StationID(1); id <= 8; id++ {
			wg.Go(func() { f.live(t, id, &live[id]) })
			wg.Go(func() { f.read(id) })
		}
		wg.Wait()
		online := 0
		for _, st := range f.Stations() {
			if f.state(t, st.ID).Status == site.Online {
				online++
			}
		}
		if f.Online() != online {
			t.Errorf("Online() = %d, %d stations are online", f.Online(), online)
		}
		f.agree(t)
	})
}

// live leads the life of one station, several times over.
func (f *fixture) live(t *testing.T, id site.StationID, connection *atomic.Uint64) {
	t.Helper()
	for range 50 {
		word, err := f.Rotate(t.Context(), admin(), id)
		if err != nil {
			t.Error(err)
		}
		generation, _ := f.Authenticate(id, word)
		number := f.next()
		connection.Store(uint64(number))
		if err := f.Connected(id, number, generation, "192.0.2.7:51000"); err != nil {
			t.Error(err)
		}
		_ = f.Report(id, []byte(`{"batteryVoltage":4,"locks":[{"lockId":"lock-1","status":"unlocked"}]}`))
		f.LockReported(id, 1, site.Locked)
		if _, err := f.Update(t.Context(), admin(), id, patch("", 1+int(generation%2), site.HomeAssistantState)); err != nil {
			t.Error(err)
		}
		if generation%3 == 0 {
			f.Disconnected(id, number, "closed")
		}
		if generation%5 == 0 {
			f.replaceStation(t, id)
		}
	}
}

func (f *fixture) replaceStation(t *testing.T, id site.StationID) {
	t.Helper()
	if err := f.Remove(t.Context(), admin(), id); err != nil {
		t.Error(err)
	}
	if _, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: id, Locks: 2}); err != nil {
		t.Error(err)
	}
}

func (f *fixture) read(id site.StationID) {
	wake, cancel := f.Subscribe()
	defer cancel()
	var seen uint64
	for range 500 {
		f.Heard(id)
		f.State(id)
		f.ByToken(token)
		f.Authenticate(id, secret)
		f.Stations()
		select {
		case <-wake:
			events, _ := f.EventsSince(seen, id)
			for _, e := range events {
				seen = e.Number
			}
		default:
		}
	}
}

// TestService_Remove_race lets connections race with the removal of their station:
// none may be left over on a station that is no longer there.
func TestService_Remove_race(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 1)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if generation, ok := f.Authenticate(1, secret); ok {
						_ = f.Connected(1, f.next(), generation, "")
					}
				}
			})
		}
		for range 2000 {
			if err := f.Remove(t.Context(), admin(), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 1, Locks: 1, Secret: secret}); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		wg.Wait()
		if err := f.Remove(t.Context(), admin(), 1); err != nil {
			t.Fatal(err)
		}
		if f.Online() != 0 {
			t.Errorf("no station is enrolled, %d are online", f.Online())
		}
	})
}
