package station_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

func limits() station.AlarmLimits {
	return station.AlarmLimits{
		DoorForced: 10 * time.Second, DoorHeld: 3 * time.Minute, LeftUnlocked: 15 * time.Minute, StationSilent: 5 * time.Minute, RefusedOften: 5,
	}
}

// guarded is a running service whose station 1 is connected and has closed, locked doors.
type guarded struct {
	*running
	t *testing.T
}

func guard(t *testing.T, n int) *guarded {
	t.Helper()
	g := &guarded{startRun(t, n), t}
	g.SetAlarms(limits())
	g.connect(t)
	g.report("locked", "closed")
	return g
}

// report reports lock-1 of station 1; an empty word is not stated.
func (g *guarded) report(status site.LockStatus, door site.DoorStatus) {
	g.t.Helper()
	var r station.Report
	r.Locks[1], r.Doors[1] = status, door
	if err := g.Service.Report(1, &r); err != nil {
		g.t.Fatal(err)
	}
}

// unlock sends an unlock of lock-1 of station 1, which ends so.
func (g *guarded) unlock(command site.CommandID, outcome site.Outcome) {
	g.Releasing(1, 1, command)
	g.Unlocked(1, 1, command, outcome)
}

// pass lets time pass.
func (g *guarded) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// alarms returns the records of the kinds of alarms, as "kind lock×count".
func (g *guarded) alarms() []string { return g.records(alarmKinds()...) }

func alarmKinds() []site.Kind {
	return []site.Kind{site.KindDoorForced, site.KindDoorHeld, site.KindLeftUnlocked, site.KindStationSilent, site.KindRefusedOften}
}

func (g *guarded) records(kinds ...site.Kind) (texts []string) {
	for _, r := range g.store.journalled(kinds...) {
		text := string(r.Kind)
		if r.Lock != "" {
			text += " " + r.Lock
		}
		if r.Count > 0 {
			text += fmt.Sprintf("×%d", r.Count)
		}
		texts = append(texts, text)
	}
	return texts
}

// standing returns the codes of the conditions, which may be a few seconds late.
func (g *guarded) standing() (codes []health.Code) {
	g.pass(5 * time.Second)
	for _, c := range g.health.Conditions() {
		codes = append(codes, c.Code)
	}
	return codes
}

func (g *guarded) want(standing, records []string) {
	g.t.Helper()
	if got := g.standing(); fmt.Sprint(got) != fmt.Sprint(standing) {
		g.t.Errorf("conditions %v, want %v", got, standing)
	}
	if got := g.alarms(); !slices.Equal(got, records) {
		g.t.Errorf("alarms recorded %q, want %q", got, records)
	}
}

func TestService_doorForced(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*guarded)
		forced bool
	}{
		"out of the blue":           {func(*guarded) {}, true},
		"after an unlock":           {func(g *guarded) { g.unlock("c", site.Acknowledged); g.pass(9 * time.Second) }, false},
		"long after an unlock":      {func(g *guarded) { g.unlock("c", site.Acknowledged); g.pass(11 * time.Second) }, true},
		"after an exit":             {func(g *guarded) { g.report("unlocked", "") }, false},
		"while it is left unlocked": {func(g *guarded) { g.report("unlocked", ""); g.pass(10 * time.Minute) }, false},
		"after it has locked again": {func(g *guarded) {
			g.report("unlocked", "")
			g.pass(time.Minute)
			g.report("locked", "")
			g.pass(9 * time.Second)
		}, false},
		"long after it locked again": {func(g *guarded) { g.report("unlocked", ""); g.report("locked", ""); g.pass(11 * time.Second) }, true},
		"a bounce": {func(g *guarded) {
			g.unlock("c", site.Done)
			g.report("", "open")
			g.pass(time.Minute)
			g.report("", "closed")
			g.pass(time.Second)
		}, false},
		"after a jam":          {func(g *guarded) { g.report("jammed", "") }, true},
		"without a known lock": {func(g *guarded) { g.report("unknown", "") }, false},
		"from an unknown door": {func(g *guarded) { g.report("", "unknown") }, false},
		"while it was offline": {func(g *guarded) { g.Disconnected(1, g.last(), "gone"); g.connect(g.t) }, false},
		"switched off":         {func(g *guarded) { g.SetAlarms(station.AlarmLimits{}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, 1)
				c.before(g)
				g.report("", "open")
				if c.forced {
					g.want([]string{"door-forced"}, []string{"door-forced lock-1"})
				} else {
					g.want(nil, nil)
				}
				if got := g.records(site.KindDoorOpened); len(got) == 0 {
					t.Errorf("recorded %q: want the opening", got)
				}
			})
		})
	}
}

// One report may state the exit and the open door.
func TestService_doorForced_exitInTheSameReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.report("unlocked", "open")
		g.want(nil, nil)
	})
}

// A forced door is seen for ten minutes after it is closed, although it is opened again then.
func TestService_doorForced_clears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.report("", "open")
		g.pass(time.Minute)
		g.report("", "closed")
		g.pass(9 * time.Minute)
		g.unlock("c", site.Done)
		g.report("", "open")
		g.report("", "closed")
		g.want([]string{"door-forced"}, []string{"door-forced lock-1"})
		g.pass(time.Minute + 10*time.Second)
		g.want(nil, []string{"door-forced lock-1"})
	})
}

func TestService_doorHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.unlock("c", site.Done)
		g.report("", "open")
		for range 175 { // a sensor that bounces: a short closure is none
			g.pass(time.Second)
			g.report("", "closed")
			g.report("", "open")
		}
		g.want(nil, nil)
		g.pass(11 * time.Second)
		g.want([]string{"door-held"}, []string{"door-held lock-1"})
		g.report("", "closed")
		g.report("", "open")
		g.pass(10 * time.Minute)
		g.want([]string{"door-held"}, []string{"door-held lock-1"})
		g.report("", "closed")
		g.pass(8 * time.Second)
		g.want(nil, []string{"door-held lock-1"})
	})
}

// Of a door that was open when its station was last heard of, nothing is known.
func TestService_doorHeld_offline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.unlock("c", site.Done)
		g.report("", "open")
		g.Disconnected(1, g.last(), "gone")
		g.pass(4 * time.Minute)
		g.connect(t)
		g.pass(time.Minute)
		g.want(nil, nil)
		g.report("", "open")
		g.pass(6 * time.Second)
		g.want([]string{"door-held"}, []string{"door-held lock-1"})
	})
}

// Of a station that comes back and does not state a door or a lock again, nothing is known
// after a while: its alarms end, and the door is unknown.
func TestService_doorHeld_notStatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.unlock("c", site.Done)
		g.report("unlocked", "open")
		g.pass(16 * time.Minute)
		recorded := []string{"door-held lock-1", "left-unlocked lock-1"}
		standing := []string{"door-held", "left-unlocked"}
		g.want(standing, recorded)
		g.Disconnected(1, g.last(), "gone")
		g.pass(time.Minute)
		g.connect(t)
		g.pass(4 * time.Minute)
		g.want(standing, recorded)
		g.pass(time.Minute + 10*time.Second)
		g.want(nil, recorded)
		if state, _ := g.State(1); state.Locks[0].Door != site.DoorUnknown {
			t.Errorf("the door is %q", state.Locks[0].Door)
		}
		g.report("locked", "closed")
		g.pass(11 * time.Second)
		g.report("", "open")
		g.want([]string{"door-forced"}, append(recorded, "door-forced lock-1"))
	})
}

func TestService_leftUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.report("unlocked", "")
		g.pass(14 * time.Minute)
		g.want(nil, nil)
		g.pass(time.Minute + 6*time.Second)
		g.want([]string{"left-unlocked"}, []string{"left-unlocked lock-1"})
		g.report("locked", "")
		g.pass(8 * time.Second)
		g.want(nil, []string{"left-unlocked lock-1"})
	})
}

// A station that states a lock in results alone never says that it has locked again.
func TestService_leftUnlocked_resultsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.LockReported(1, 2, site.Unlocked)
		g.pass(time.Hour)
		g.want(nil, nil)
	})
}

// A station is silent from five minutes without a connection on; one that comes and goes
// meanwhile is not over it. One that never came is not expected.
func TestService_stationSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 2)
		g.Disconnected(1, g.last(), "gone")
		g.pass(4*time.Minute + 50*time.Second)
		g.want(nil, nil)
		g.pass(20 * time.Second)
		g.want([]string{"station-silent"}, []string{"station-silent"})
		for range 20 {
			g.connect(t)
			g.pass(10 * time.Second)
			g.Disconnected(1, g.last(), "gone")
			g.pass(10 * time.Second)
		}
		g.want([]string{"station-silent"}, []string{"station-silent"})
		g.connect(t)
		g.pass(40 * time.Second)
		g.want(nil, []string{"station-silent"})
	})
}

// What the station refuses or does not answer counts, and logins with a wrong password;
// an offline station and what succeeds do not.
func TestService_refusedOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 2)
		for range 20 {
			g.unlock("c", site.StationGone)
			g.unlock("c", site.Done)
		}
		for range 2 {
			g.unlock("c", site.Refused)
			g.unlock("c", site.Expired)
		}
		g.pass(10 * time.Second)
		g.want(nil, nil)
		g.Authenticate(1, "wrong")
		g.want([]string{"refused-often"}, []string{"refused-often"})
		for range 1000 {
			g.Authenticate(1, "wrong")
			g.Authenticate(77, "wrong")
		}
		g.pass(29 * time.Minute)
		g.Authenticate(1, "wrong")
		g.pass(29 * time.Minute)
		g.want([]string{"refused-often"}, []string{"refused-often"})
		g.pass(2 * time.Minute)
		g.want(nil, []string{"refused-often"})
	})
}

// An alarm that stands is there after a restart, with its time and without another record;
// what had not lasted begins anew, and a step of the clock is no time that passes.
func TestService_alarms_restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.report("", "open") // forced, then held
		g.pass(4 * time.Minute)
		g.want([]string{"door-forced", "door-held"}, []string{"door-forced lock-1", "door-held lock-1"})
		before := g.health.Conditions()
		g.stop()

		c := config(g.store, systemClock{})
		c.Alarms, c.Health = limits(), &health.Registry{}
		g.Service, g.health = open(t, c), c.Health
		if got := g.health.Conditions(); !slices.Equal(got, before) {
			t.Errorf("after the restart %+v, before %+v", got, before)
		}
		g.want([]string{"door-forced", "door-held"}, []string{"door-forced lock-1", "door-held lock-1"})
	})
}

// A clock that is set forward by a year makes nothing last a year.
func TestService_alarms_clockStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.unlock("c", site.Done)
		g.report("unlocked", "open")
		g.stop()
		clock := &handClock{now: epoch()}
		c := config(g.store, clock)
		c.Alarms = limits()
		g.running = run(t, c)
		g.connect(t)
		g.report("unlocked", "open")
		clock.advance(365 * 24 * time.Hour)
		g.report("unlocked", "open")
		g.pass(time.Minute)
		g.want(nil, nil)
	})
}

// Whatever flaps for hours, and however: at most one record of an alarm a minute, the
// first at once, the last state in the end, and no more records of doors than a busy door
// has.
func TestService_alarms_flapping(t *testing.T) {
	for name, flaps := range map[string]struct{ every, during time.Duration }{
		"four times a second": {250 * time.Millisecond, 2 * time.Hour},
		"each 20 s":           {20 * time.Second, 24 * time.Hour},
		"each 4 min":          {4 * time.Minute, 24 * time.Hour},
	} {
		every, during := flaps.every, flaps.during
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, 1)
				end := time.Now().Add(during)
				g.report("", "open")
				if len(g.alarms()) != 1 {
					t.Error("the first alarm is not recorded at once")
				}
				open := true
				for time.Sleep(every); time.Now().Before(end); time.Sleep(every) {
					if open = !open; open {
						g.report("", "open")
					} else {
						g.report("", "closed")
					}
				}
				alarms := len(g.alarms())
				if most := int(during/time.Minute) + 1; alarms > most || alarms > int(during/every)+1 {
					t.Errorf("%d alarms were recorded, at most %d may be", alarms, most)
				}
				doors := len(g.records(site.KindDoorOpened, site.KindDoorClosed))
				if most := int(during/time.Minute) + 60; doors > most {
					t.Errorf("%d records of the door, at most %d may be", doors, most)
				}
				last := site.DoorClosed
				if open {
					last = site.DoorOpen
				}
				g.report("", last)
				g.pass(2 * time.Minute)
				kinds := map[site.DoorStatus]site.Kind{site.DoorOpen: site.KindDoorOpened, site.DoorClosed: site.KindDoorClosed}
				all := g.store.journalled(site.KindDoorOpened, site.KindDoorClosed)
				if got := all[len(all)-1].Kind; got != kinds[last] {
					t.Errorf("the last record is %s, and the door %s", got, last)
				}
				openings, forced := 0, 0
				for _, r := range all {
					openings += max(r.Count, 0) + 1
				}
				for _, r := range g.store.journalled(site.KindDoorForced) {
					forced += max(r.Count, 1)
				}
				if changes := int(during / every); openings != changes {
					t.Errorf("the records count %d changes of %d", openings, changes)
				}
				want := int(during/every+1) / 2
				if every < 2*time.Second {
					want = 1 // a door that bounces is opened once
				}
				if forced != want {
					t.Errorf("the records count %d forced openings of %d", forced, want)
				}
			})
		})
	}
}

// What a gateway that ends had not recorded yet it records as it ends.
func TestService_Run_recordsTheLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		for range 20 {
			g.report("", "open")
			g.report("", "closed")
			g.pass(2 * time.Second)
		}
		for range 1000 {
			g.report("", "open")
			g.report("", "closed")
		}
		g.report("unlocked", "open")
		g.stop()
		doors, alarms := g.store.journalled(site.KindDoorOpened, site.KindDoorClosed), g.store.journalled(site.KindDoorForced)
		if last := doors[len(doors)-1]; last.Kind != site.KindDoorOpened || last.Count != 2040-len(doors)+1 {
			t.Errorf("the last of %d records is %+v", len(doors), last)
		}
		if len(alarms) != 2 || alarms[1].Count != 20 {
			t.Errorf("alarms %+v", alarms)
		}
	})
}

// Changes that have no record yet are not forgotten while the status of the door is unknown.
func TestService_doorRecords_unknownMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		for range 500 {
			g.report("", "open")
			g.report("", "closed")
		}
		g.report("", "unknown")
		g.pass(time.Hour)
		g.report("", "closed")
		changes := 0
		for _, r := range g.store.journalled(site.KindDoorOpened, site.KindDoorClosed) {
			changes += r.Count + 1
		}
		if changes != 1001 {
			t.Errorf("the records count %d changes of 1001", changes)
		}
	})
}

// A door that is forced all the time hides no other alarm of its lock.
func TestService_alarms_takeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.pass(3 * time.Second)
		for range 100 { // open whenever it is looked at, every 5 s
			g.report("", "open")
			g.pass(7500 * time.Millisecond)
			g.report("", "closed")
			g.pass(2500 * time.Millisecond)
		}
		if got := g.store.journalled(site.KindDoorHeld); len(got) != 1 {
			t.Errorf("%d records of an open door: want one; all are %q", len(got), g.alarms())
		}
	})
}

// An unlock whose door nobody opens is recorded, once, after the lock has locked again.
func TestService_notOpened(t *testing.T) {
	for name, c := range map[string]struct {
		play func(*guarded)
		want []site.CommandID
	}{
		"opened": {func(g *guarded) {
			g.unlock("c-1", site.Done)
			g.pass(5 * time.Second)
			g.report("", "open")
			g.report("", "closed")
		}, nil},
		"not opened":   {func(g *guarded) { g.unlock("c-1", site.Acknowledged) }, []site.CommandID{"c-1"}},
		"twice":        {func(g *guarded) { g.unlock("c-1", site.Done); g.pass(9 * time.Second); g.unlock("c-2", site.Done) }, []site.CommandID{"c-2"}},
		"refused":      {func(g *guarded) { g.unlock("c-1", site.Refused) }, nil},
		"open already": {func(g *guarded) { g.report("unlocked", "open"); g.unlock("c-1", site.Done) }, nil},
		"opened at once": {func(g *guarded) {
			g.Releasing(1, 1, "c-1")
			g.pass(1)
			g.report("", "open")
			g.report("", "closed")
			g.Unlocked(1, 1, "c-1", site.Done)
		}, nil},
		"still unlocked":   {func(g *guarded) { g.unlock("c-1", site.Done); g.report("unlocked", "") }, nil},
		"the station gone": {func(g *guarded) { g.unlock("c-1", site.Done); g.Disconnected(1, g.last(), "gone") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, 1)
				g.pass(time.Second)
				c.play(g)
				g.pass(5 * time.Minute)
				var got []site.CommandID
				for _, r := range g.store.journalled(site.KindNotOpened) {
					got = append(got, r.Command)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("not opened after %q, want %q", got, c.want)
				}
			})
		})
	}
}

// Without a sensor an unlock says nothing of its door; the record of an opening names the
// unlock before it.
func TestService_doorRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.Releasing(1, 2, "c-2")
		g.Unlocked(1, 2, "c-2", site.Done)
		g.unlock("c-1", site.Done)
		g.pass(time.Second)
		g.report("", "open")
		g.pass(time.Minute)
		g.report("", "closed")
		all := g.store.journalled(site.KindDoorOpened, site.KindDoorClosed, site.KindNotOpened)
		if len(all) != 2 || all[0].Kind != site.KindDoorOpened || all[0].Command != "c-1" || all[0].Lock != "lock-1" ||
			all[1].Kind != site.KindDoorClosed || all[1].Command != "" {
			t.Errorf("recorded %+v", all)
		}
	})
}

// An exit long after an unlock names no command.
func TestService_doorRecords_exitLongAfterAnUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		g.unlock("c-1", site.Done)
		g.pass(20 * time.Minute)
		g.report("unlocked", "")
		g.pass(time.Second)
		g.report("", "open")
		if all := g.store.journalled(site.KindDoorOpened); len(all) != 1 || all[0].Command != "" {
			t.Errorf("recorded %+v: want one without a command", all)
		}
	})
}

// A gateway that ends records every alarm that has no record yet.
func TestService_alarms_recordedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, 1)
		l := limits()
		l.DoorHeld = l.LeftUnlocked
		g.SetAlarms(l)
		g.report("unlocked", "open")
		g.pass(l.LeftUnlocked + 10*time.Second)
		g.stop()
		got := g.alarms()
		if slices.Sort(got); !slices.Equal(got, []string{"door-held lock-1", "left-unlocked lock-1"}) {
			t.Errorf("recorded %q", got)
		}
	})
}

// However many alarms stand, each kind is one condition of bounded length, with the
// stations' names.
func TestService_alarms_manyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		g := guard(t, n)
		for id := site.StationID(1); id <= n; id++ {
			for range 6 {
				g.Authenticate(id, "wrong")
			}
		}
		g.pass(6 * time.Second)
		if got := len(g.alarms()); got != n {
			t.Errorf("%d records of %d stations", got, n)
		}
		all := g.health.Conditions()
		if len(all) != 1 || len(all[0].Summary) > 200 || !strings.HasSuffix(all[0].Summary, "station 5 and 995 more") {
			t.Errorf("conditions %+v", all)
		}
		if err := g.Remove(t.Context(), admin(), 3); err != nil {
			t.Fatal(err)
		}
		g.pass(5 * time.Second)
		if got := g.health.Conditions()[0].Summary; strings.Contains(got, "station 3,") || !strings.HasSuffix(got, "and 994 more") {
			t.Errorf("after a removal %q", got)
		}
	})
}
