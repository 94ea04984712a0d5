package unlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// shipped are the bounds that a gateway has unless it is told otherwise.
func shipped() unlock.Bounds { return unlock.Bounds{Rate: 1, Burst: 30, Pending: 4} }

// bounded returns a service with bounds.
func (w *world) bounded(b unlock.Bounds) *unlock.Service {
	w.t.Helper()
	s, err := unlock.New(w.t.Context(), unlock.Config{
		TTL: site.DefaultTTL, Permissions: w, Doors: w, Caller: w, Journal: w, Clock: w, Metrics: metric.New(), Bounds: b,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// asks requires an answer, or Throttled with that time to wait.
func asks(t *testing.T, s *unlock.Service, req unlock.Request, wait time.Duration) {
	t.Helper()
	_, err := s.Unlock(t.Context(), req)
	if wait == 0 && err != nil {
		t.Errorf("refused: %v", err)
	}
	if wait > 0 && (!fault.Is(err, fault.Throttled) || fault.RetryAfter(err) != wait) {
		t.Errorf("the answer is %v, come back after %s; want %s", err, fault.RetryAfter(err), wait)
	}
}

func TestService_Unlock_rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.bounded(shipped())
		for range 30 {
			asks(t, s, asPorter(""), 0)
		}
		asks(t, s, asPorter(""), time.Second)
		cloud := fromCloud(time.Now().Add(time.Minute)) // which has a pace of its own
		if _, err := s.Claim(cloud.JTI, cloud.Until); err != nil {
			t.Fatal(err)
		}
		asks(t, s, cloud, 0)
		root := asPorter("")
		root.Actor = site.Actor{Origin: site.Admin, Name: "uid 0 (root)"}
		asks(t, s, root, 0)
		chief := asPorter("")
		chief.Actor.Origin = site.Admin // over HTTPS
		asks(t, s, chief, time.Second)
		<-time.After(time.Second)
		asks(t, s, asPorter(""), 0)
		asks(t, s, asPorter(""), time.Second)
		s.SetBounds(unlock.Bounds{Rate: 0.5, Burst: 1})
		asks(t, s, asPorter(""), 0)
		s.SetBounds(unlock.Bounds{Rate: 0.5, Burst: 1}) // the same again forgets nothing
		asks(t, s, asPorter(""), 2*time.Second)
		for _, off := range []unlock.Bounds{{}, {Rate: 1}, {Burst: 1}} {
			s.SetBounds(off)
			for range 50 {
				asks(t, s, asPorter(""), 0)
			}
		}
	})
}

// A retry with an Idempotency-Key gets its first answer also beyond the bounds, and
// costs nothing.
func TestService_Unlock_rateOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.bounded(unlock.Bounds{Rate: 1, Burst: 2, Pending: 1})
		for range 10 {
			asks(t, s, asPorter("k-1"), 0)
		}
		asks(t, s, asPorter("k-2"), 0)
		asks(t, s, asPorter("k-3"), time.Second)
		asks(t, s, asPorter("k-1"), 0)
		if w.sent() != 2 {
			t.Errorf("%d commands were sent", w.sent())
		}
	})
}

// Of the commands that an account has under way at a station, two are at the station;
// the others wait, and expire here.
func TestService_Unlock_pending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		s := w.bounded(unlock.Bounds{Pending: 4})
		answers := make(chan unlock.Answer, 4)
		ask := func() {
			answer, err := s.Unlock(context.Background(), asPorter(""))
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}
		for range 4 {
			go ask()
		}
		synctest.Wait()
		asks(t, s, asPorter(""), time.Second)
		if w.sent() != 2 {
			t.Errorf("%d commands are at the station, want 2", w.sent())
		}
		w.block <- struct{}{} // one is answered: the third goes
		<-answers
		synctest.Wait()
		if w.sent() != 3 {
			t.Errorf("%d commands went to the station, want 3", w.sent())
		}
		go ask()
		<-time.After(site.DefaultTTL)
		synctest.Wait()
		for range 2 {
			if answer := <-answers; answer.Outcome != site.Expired {
				t.Errorf("the answer is %+v", answer)
			}
		}
		if w.sent() != 3 {
			t.Errorf("%d commands went to the station, want 3", w.sent())
		}
		close(w.block)
		<-answers
		<-answers
		asks(t, s, asPorter(""), 0) // everything is free again
		asks(t, s, asPorter(""), 0)
	})
}

// Commands whose connection has ended hold up none that goes by the next one.
func TestService_Unlock_pendingLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block, w.lost = make(chan struct{}), true
		s := w.bounded(unlock.Bounds{Pending: 4})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { asks(t, s, asPorter(""), 0) })
		}
		synctest.Wait()
		if w.sent() != 4 {
			t.Errorf("%d commands were sent, want 4", w.sent())
		}
		asks(t, s, asPorter(""), time.Second)
		close(w.block)
		all.Wait()
	})
}

// Zero switches each bound off.
func TestService_Unlock_unbounded(t *testing.T) {
	for name, b := range map[string]unlock.Bounds{
		"all": {}, "no rate": {Burst: 2}, "no burst": {Rate: 0.001}, "no pending": {Rate: 100, Burst: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.block = make(chan struct{})
				s := w.bounded(b)
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() { asks(t, s, asPorter(""), 0) })
				}
				synctest.Wait()
				if w.sent() != 10 {
					t.Errorf("%d commands are at the station, want 10", w.sent())
				}
				close(w.block)
				all.Wait()
			})
		})
	}
}

// A slot at the station that nobody waited for is free for the next request.
func TestService_Unlock_slotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		s := w.bounded(unlock.Bounds{Pending: 4})
		var all sync.WaitGroup
		ask := func() { all.Go(func() { mustUnlock(t, s, asPorter("")) }) }
		ask()
		ask()
		synctest.Wait()
		for want := 3; want <= 5; want++ {
			w.block <- struct{}{} // one is answered, the other stays
			synctest.Wait()
			ask()
			synctest.Wait()
			if w.sent() != want {
				t.Errorf("%d commands went to the station, want %d", w.sent(), want)
			}
		}
		close(w.block)
		all.Wait()
	})
}

// Beyond the bounds a retry is refused while its first request is under way, so that it
// holds nothing; the answer is returned as soon as there is one.
func TestService_Unlock_pendingOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		s := w.bounded(unlock.Bounds{Pending: 1})
		first := make(chan unlock.Answer, 1)
		go func() { first <- mustUnlock(t, s, asPorter("k")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Unlock(ctx, asPorter("k")); !fault.Is(err, fault.Throttled) {
			t.Errorf("while it is under way: %v", err)
		}
		close(w.block)
		want := (<-first).Command
		w.block = make(chan struct{})
		go func() { first <- mustUnlock(t, s, asPorter("")) }()
		synctest.Wait()
		if again := mustUnlock(t, s, asPorter("k")); again.Command != want || !again.Replayed {
			t.Errorf("when it is answered: %+v, want command %s", again, want)
		}
		close(w.block)
		<-first
	})
}

// A request that waits for the station ends with its client.
func TestService_Unlock_pendingGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		s := w.bounded(unlock.Bounds{Pending: 3})
		var atStation sync.WaitGroup
		for range 2 {
			atStation.Go(func() { mustUnlock(t, s, asPorter("")) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan unlock.Answer, 1)
		go func() {
			answer, err := s.Unlock(ctx, asPorter(""))
			if err != nil {
				t.Error(err)
			}
			gone <- answer
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case answer := <-gone:
			if answer.Outcome != site.Refused || w.sent() != 2 {
				t.Errorf("%+v, %d sent", answer, w.sent())
			}
		default:
			t.Error("it still waits")
		}
		close(w.block)
		atStation.Wait()
		asks(t, s, asPorter(""), 0)
	})
}

// A client that goes while it waits leaves its turn to no other: the slots at the station
// are still taken.
func TestService_Unlock_pendingGone_lastInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		s := w.bounded(unlock.Bounds{Pending: 4})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { mustUnlock(t, s, asPorter("")) })
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() { _, _ = s.Unlock(ctx, asPorter("")) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if w.sent() != 2 {
			t.Errorf("%d commands are at the station, want 2", w.sent())
		}
		close(w.block)
		all.Wait()
		if w.sent() != 3 {
			t.Errorf("%d commands went to the station, want 3", w.sent())
		}
	})
}

// What an account may not do any more gets one record at once and one a minute.
func TestService_Run_recordsRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.bounded(unlock.Bounds{Rate: 1, Burst: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		refused := func() (all []string) {
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range w.records {
				if r.Kind == site.KindThrottled {
					all = append(all, fmt.Sprint(r.Account, " ", r.Station, " ", r.Count))
				}
			}
			return all
		}
		want := func(all ...string) {
			t.Helper()
			if got := refused(); fmt.Sprint(got) != fmt.Sprint(all) {
				t.Errorf("the records are %q, want %q", got, all)
			}
		}
		asks(t, s, asPorter(""), 0)
		for range 1000 {
			asks(t, s, asPorter(""), time.Second)
		}
		want("porter 1042 0")
		<-time.After(2 * time.Minute)
		want("porter 1042 0", "porter 1042 999")
		<-time.After(10 * time.Minute)
		asks(t, s, asPorter(""), 0)
		asks(t, s, asPorter(""), time.Second)
		asks(t, s, asPorter(""), time.Second)
		cancel()
		running.Wait()
		want("porter 1042 0", "porter 1042 999", "porter 1042 0", "porter 1042 0")
	})
}

// A record of refusals at different stations names none; the end of the minute without a
// further refusal makes none.
func TestService_Run_recordsRefusals_differentStations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stations = []site.StationID{gate, 7}
		s := w.bounded(unlock.Bounds{Rate: 0.001, Burst: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		other := asPorter("")
		other.Station = 7
		asks(t, s, asPorter(""), 0)
		for _, req := range []unlock.Request{asPorter(""), asPorter(""), asPorter(""), other} {
			if _, err := s.Unlock(t.Context(), req); !fault.Is(err, fault.Throttled) {
				t.Errorf("got %v", err)
			}
		}
		<-time.After(10 * time.Minute)
		cancel()
		running.Wait()
		var got []string
		for _, r := range w.records {
			if r.Kind == site.KindThrottled {
				got = append(got, fmt.Sprint(int64(r.Station), " ", r.Count))
			}
		}
		if want := "[1042 0 0 3]"; fmt.Sprint(got) != want {
			t.Errorf("station and count of the records: %v, want %s", got, want)
		}
	})
}
