package station_test

import (
	"fmt"
	"sync"
	"testing"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// kept is how many events are remembered at least and at most.
const kept = 1024

func (f *fixture) flip(id site.StationID, times int) {
	for range times {
		if st, _ := f.State(id); st.Locks[0].Status == site.Locked {
			f.LockReported(id, 1, site.Unlocked)
		} else {
			f.LockReported(id, 1, site.Locked)
		}
	}
}

func numbers(events []station.Event) (out []uint64) {
	for _, e := range events {
		out = append(out, e.Number)
	}
	return out
}

func TestService_EventsSince(t *testing.T) {
	f := setup(t, 2) // events 1 and 2
	f.flip(1, 2)     // 3, 4
	f.flip(2, 1)     // 5
	for _, c := range []struct {
		after  uint64
		filter site.StationID
		want   string
		gap    bool
	}{
		{0, 0, "[1 2 3 4 5]", false},
		{3, 0, "[4 5]", false},
		{5, 0, "[]", false},
		{6, 0, "[]", true},
		{1 << 63, 0, "[]", true},
		{0, 1, "[1 3 4]", false},
		{4, 1, "[]", false},
		{4, 2, "[5]", false},
		{0, 9, "[]", false},
	} {
		events, gap := f.EventsSince(c.after, c.filter)
		if got := fmt.Sprint(numbers(events)); got != c.want || gap != c.gap {
			t.Errorf("EventsSince(%d, %d) returns %s, gap %v; want %s, %v", c.after, c.filter, got, gap, c.want, c.gap)
		}
	}
	events, _ := f.EventsSince(4, 0)
	if e := events[0]; e.State.ID != 2 || e.State.Locks[0].Status != site.Locked {
		t.Errorf("event 5 is %+v", e)
	}
	if f.Latest() != 5 {
		t.Errorf("the latest is %d", f.Latest())
	}
}

func TestService_EventsSince_gap(t *testing.T) {
	f := setup(t, 3)  // events 1 to 3
	f.flip(1, kept-3) // full: 1 to 1024
	if _, gap := f.EventsSince(0, 0); gap {
		t.Error("a gap although everything is remembered")
	}
	f.flip(1, 2) // events 1 (station 1) and 2 (station 2) are forgotten
	for _, c := range []struct {
		after  uint64
		filter site.StationID
		events int
		gap    bool
	}{
		{0, 0, kept, true},
		{1, 0, kept, true},
		{2, 0, kept, false},
		{3, 0, kept - 1, false},
		{0, 1, kept - 1, true},
		{1, 1, kept - 1, false},
		{0, 2, 0, true},
		{1, 2, 0, true},
		{2, 2, 0, false},
		{0, 3, 1, false}, // a quiet station has no gap, however loud the others are
	} {
		events, gap := f.EventsSince(c.after, c.filter)
		if len(events) != c.events || gap != c.gap {
			t.Errorf("EventsSince(%d, %d) returns %d events, gap %v; want %d, %v", c.after, c.filter, len(events), gap, c.events, c.gap)
		}
		for i := 1; c.filter == 0 && i < len(events); i++ {
			if events[i].Number != events[i-1].Number+1 {
				t.Fatalf("after %d comes %d", events[i-1].Number, events[i].Number)
			}
		}
	}
}

// TestService_events_when proves when an event happens and when not.
func TestService_events_when(t *testing.T) {
	f := setup(t, 1)
	for _, c := range []struct {
		name  string
		do    func()
		event bool
	}{
		{"connected", func() { f.connect(t) }, true},
		{"heard", func() { f.Heard(1) }, false},
		{"battery", func() { _ = f.Report(1, []byte(`{"batteryVoltage":3.9}`)) }, true},
		{"same battery", func() { _ = f.Report(1, []byte(`{"batteryVoltage":3.90}`)) }, false},
		{"firmware", func() { _ = f.Report(1, []byte(`{"firmware":"1.4.2"}`)) }, true},
		{"same firmware", func() { _ = f.Report(1, []byte(`{"firmware":"1.4.2"}`)) }, false},
		{"lock", func() { _ = f.Report(1, []byte(`{"locks":[{"lockId":"lock-2","status":"locked"}]}`)) }, true},
		{"same lock", func() { _ = f.Report(1, []byte(`{"locks":[{"lockId":"lock-2","status":"locked"}]}`)) }, false},
		{"lock by result", func() { f.LockReported(1, 2, site.Unlocked) }, true},
		{"same by result", func() { f.LockReported(1, 2, site.Unlocked) }, false},
		{"undeclared lock", func() { f.LockReported(1, 3, site.Unlocked) }, false},
		{"no lock", func() { f.LockReported(1, 0, site.Unlocked) }, false},
		{"no status", func() { f.LockReported(1, 2, "open") }, false},
		{"unknown station", func() { f.LockReported(9, 1, site.Unlocked) }, false},
		{"empty report", func() { _ = f.Report(1, []byte(`{}`)) }, false},
		{"no report", func() { _ = f.Report(1, []byte(`nonsense`)) }, false},
		{"several at once", func() {
			_ = f.Report(1, []byte(`{"batteryVoltage":4,"firmware":"2","locks":[{"lockId":"lock-1","status":"locked"}]}`))
		}, true},
		{"disconnected", func() { f.Disconnected(1, f.last(), "closed") }, true},
		{"again", func() { f.Disconnected(1, f.last(), "closed") }, false},
	} {
		before := f.Latest()
		c.do()
		want := before
		if c.event {
			want++
		}
		if f.Latest() != want {
			t.Errorf("%s: %d events", c.name, f.Latest()-before)
		}
	}
	events, _ := f.EventsSince(0, 1)
	if last := events[len(events)-1].State; last.Status != site.Offline || *last.BatteryVoltage != 4 {
		t.Errorf("the last event shows %+v", last)
	}
}

func TestService_Subscribe(t *testing.T) {
	f := setup(t, 1)
	wake, cancel := f.Subscribe()
	other, cancelOther := f.Subscribe()
	defer cancelOther()
	select {
	case <-wake:
		t.Fatal("woken without an event")
	default:
	}
	f.flip(1, 3) // three events, one wake-up
	<-wake
	<-other
	select {
	case <-wake:
		t.Error("woken twice")
	default:
	}
	cancel()
	cancel()
	f.flip(1, 1)
	<-other
	select {
	case <-wake:
		t.Error("woken after cancelling")
	default:
	}
}

// TestService_Subscribe_missesNothing lets a follower and changes race.
func TestService_Subscribe_missesNothing(t *testing.T) {
	f := setup(t, 4)
	const each = 200
	total := f.Latest() + 4*each
	wake, cancel := f.Subscribe()
	defer cancel()
	var wg sync.WaitGroup
	for id := site.StationID(1); id <= 4; id++ {
		wg.Go(func() { f.flip(id, each) })
	}
	var seen uint64
	for seen < total {
		events, gap := f.EventsSince(seen, 0)
		if gap {
			t.Fatal("a gap")
		}
		for _, e := range events {
			if e.Number != seen+1 {
				t.Fatalf("after %d comes %d", seen, e.Number)
			}
			seen = e.Number
		}
		if len(events) == 0 {
			<-wake
		}
	}
	wg.Wait()
	for id := site.StationID(1); id <= 4; id++ {
		events, _ := f.EventsSince(0, id)
		if last := events[len(events)-1].State; last.Locks[0] != f.state(t, id).Locks[0] {
			t.Errorf("station %d: the last event shows %+v", id, last)
		}
	}
}
