package update_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/install/update"
	"gatehouse/internal/site"
)

// tried returns a board that has started version 1.3.0 on trial; before, these stations
// were online.
func tried(t *testing.T, online ...site.StationID) *board {
	t.Helper()
	b := newBoard(t)
	b.settle()
	b.gateway.online = online
	if err := b.install(b.file("1.3.0")); err != nil {
		t.Fatal(err)
	}
	if got := b.restart(); got != "b" || b.restarts != 1 {
		t.Fatalf("slot %s starts after %d restarts", got, b.restarts)
	}
	b.restarts, b.schema = 0, 10
	b.settle()
	if s := b.status(); s.Phase != site.UpdateTrial || s.Target != "1.3.0" || s.Default != "a" || s.Running.Version != "1.3.0" || s.Last != nil {
		t.Fatalf("the status is %+v", s)
	}
	return b
}

// service runs the service until it ends, or for a while of a bubble's time.
func (b *board) service(d time.Duration) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), d) // in a bubble
	defer cancel()
	return b.updater().Run(ctx)
}

func (b *board) checkCommitted() {
	b.t.Helper()
	s := b.status()
	if s.Default != "b" || s.Phase != site.UpdateIdle || s.Last == nil || s.Last.Outcome != site.UpdateCommitted || s.Last.Version != "1.3.0" || s.Last.Reason != "" {
		b.t.Errorf("the status is %+v", s)
	}
	if b.restarts != 0 || b.restart() != "b" {
		b.t.Error("the new version does not start next")
	}
}

func TestRun_commits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t, 7, 8)
		began := time.Now()
		if err := b.service(time.Hour); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > time.Minute {
			t.Errorf("it took %v", took)
		}
		b.checkCommitted()
	})
}

// A trial waits for the stations that were online before, and for no others.
func TestRun_waitsForStations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t, 7, 8, 9)
		b.gateway.online, b.gateway.offline = []site.StationID{7}, []site.StationID{8, 12} // 9 was removed, 12 was offline before
		began := time.Now()
		b.gateway.asked = func() {
			if time.Since(began) >= 3*time.Minute {
				b.gateway.online, b.gateway.offline = []site.StationID{7, 8}, []site.StationID{12}
			}
		}
		if err := b.service(time.Hour); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 3*time.Minute || took > 4*time.Minute {
			t.Errorf("it took %v", took)
		}
		b.checkCommitted()
		if !strings.Contains(b.history(), "1 of 2 stations") {
			t.Errorf("it waited for %s", b.history())
		}
	})
}

// history returns what the statuses waited for.
func (b *board) history() string {
	all := ""
	for _, s := range b.seen {
		all += s.WaitingFor + "\n"
	}
	return all
}

// After ten minutes half of the stations are enough.
func TestRun_halfOfTheStations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t, 1, 2, 3, 4)
		b.gateway.online, b.gateway.offline = []site.StationID{1, 2}, []site.StationID{3, 4}
		b.uptime = time.Minute
		began := time.Now()
		if err := b.service(time.Hour); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 9*time.Minute || took > 10*time.Minute {
			t.Errorf("it took %v", took)
		}
		b.checkCommitted()
	})
}

// Each way in which a trial fails ends on the old version, with the reason.
func TestRun_fallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		sick   func(b *board)
		reason string
		after  time.Duration
	}{
		"no gateway":          {func(b *board) { b.gateway.err = errDown }, "the gateway was not ready 5 minutes after the start: The gateway does not answer", 5 * time.Minute},
		"a gateway not ready": {func(b *board) { b.gateway.ready = false }, "not ready 5 minutes after the start: The database cannot be written", 5 * time.Minute},
		"a verbose gateway":   {func(b *board) { b.gateway.err = errors.New(strings.Repeat("é\n", 100_000)) }, "not ready 5 minutes after the start: é", 5 * time.Minute},
		"another certificate": {func(b *board) { b.gateway.serves = errors.New("it shows another certificate") }, "it shows another certificate", 5 * time.Minute},
		"a slow start":        {func(b *board) { b.gateway.err, b.uptime = errDown, 4*time.Minute }, "not ready 5 minutes after the start", time.Minute},
		"stations":            {func(b *board) { b.gateway.online, b.gateway.offline = []site.StationID{1}, []site.StationID{2, 3} }, "only 1 of the 3 stations that were online before came back within 10 minutes", 10 * time.Minute},
		"no list of stations": {func(b *board) { b.gateway.unlists = errDown }, "not ready 5 minutes after the start: it does not list its stations: The gateway does not answer", 5 * time.Minute},
		"a gateway that ends": {func(b *board) {
			began := time.Now()
			b.gateway.asked = func() {
				if time.Since(began) >= 6*time.Second {
					b.gateway.err = errDown
				}
			}
		}, "not ready 11 minutes after the start", 11 * time.Minute},
		"a gateway that swings": {func(b *board) { b.gateway.asked = func() { b.gateway.ready = !b.gateway.ready } }, "not ready 11 minutes after the start", 11 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := tried(t, 1, 2, 3)
				c.sick(b)
				began := time.Now()
				if err := b.service(time.Hour); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < c.after || took > c.after+10*time.Second || b.restarts != 1 {
					t.Errorf("it took %v, %d restarts", took, b.restarts)
				}
				if text := b.Read("var/lib/gatehouse-update/state.json"); len(text) > 10_000 {
					t.Errorf("the state has %d bytes", len(text))
				}
				if b.restart() != "a" {
					t.Error("the old version does not start")
				}
				b.settle()
				s := b.status()
				if s.Last == nil || s.Last.Outcome != site.UpdateFellBack || !strings.Contains(s.Last.Reason, c.reason) || s.Last.Version != "1.3.0" || s.Phase != site.UpdateIdle || !s.TakeBack {
					t.Errorf("the status is %+v, %+v", s, s.Last)
				}
			})
		})
	}
}

// The service that is stopped within a trial decides nothing.
func TestRun_stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t, 1)
		b.gateway.err = errDown
		if err := b.service(time.Minute); err != nil {
			t.Fatal(err)
		}
		if s := b.status(); s.Phase != site.UpdateTrial || b.restarts != 0 || s.Last != nil {
			t.Errorf("the status is %+v after %d restarts", s, b.restarts)
		}
	})
}

// A version that does not start at all, or is cut off, has its reason.
func TestSettle_fellBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			happens func(b *board)
			want    string
		}{
			"never started": {func(*board) {}, "version 1.3.0 did not start"},
			"hung":          {func(b *board) { b.settle() }, "version 1.3.0 stopped before it was found to be well"},
		} {
			b := newBoard(t)
			b.settle()
			if err := b.install(b.file("1.3.0")); err != nil {
				t.Fatal(err)
			}
			b.restart()
			c.happens(b)
			b.restart()
			b.settle()
			s := b.status()
			if s.Running.Slot != "a" || s.Last == nil || s.Last.Outcome != site.UpdateFellBack || !strings.HasPrefix(s.Last.Reason, c.want) || !s.TakeBack {
				t.Errorf("%s: the status is %+v, %+v", name, s, s.Last)
			}
			if err := b.service(time.Minute); err != nil { // which sees the gateway ready
				t.Error(err)
			}
			if s := b.status(); s.TakeBack || s.Last.Outcome != site.UpdateFellBack {
				t.Errorf("%s: the status is %+v", name, s)
			}
		}
	})
}

// The leave to take back an older database lasts until the gateway has done it, over power
// cuts too.
func TestSettle_takeBackLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t)
		b.restart()
		b.gateway.err = errDown
		for range 3 {
			b.settle()
			if s := b.status(); !s.TakeBack {
				t.Fatalf("the status is %+v", s)
			}
			if err := b.service(time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		b.gateway.err = nil
		if err := b.service(time.Minute); err != nil || b.status().TakeBack {
			t.Errorf("%+v, %v", b.status(), err)
		}
	})
}

// A power cut between the two steps of the commit leaves a version that is the default.
func TestSettle_cutCommit(t *testing.T) {
	b := tried(t)
	b.Write("boot/efi/loader/loader.conf", strings.Replace(b.Read("boot/efi/loader/loader.conf"), "gatehouse-a", "gatehouse-b", 1))
	b.restart()
	b.settle()
	b.checkCommitted()
}

// A power cut before the one shot blames nobody.
func TestSettle_cutBeforeOneShot(t *testing.T) {
	b := newBoard(t)
	b.settle()
	if err := b.install(b.file("1.3.0")); err != nil {
		t.Fatal(err)
	}
	state := b.Read("var/lib/gatehouse-update/state.json")
	b.Write("var/lib/gatehouse-update/state.json", strings.Replace(state, `,"armed":true`, "", 1))
	b.settle() // slot a runs still
	s := b.status()
	if s.Last == nil || s.Last.Outcome != site.UpdateFailed || !strings.Contains(s.Last.Reason, "version 1.3.0 was not tried") || b.oneShot() != "" {
		t.Errorf("the status is %+v, %+v, and %q is tried next", s, s.Last, b.oneShot())
	}
	if err := b.install(b.file("1.3.0")); err != nil {
		t.Error(err)
	}
}

// A slot that someone chose in the menu is not judged, and nothing is committed.
func TestRun_chosenByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		b.Fill("b", "1.2.2")
		b.run("b")
		b.settle()
		if err := b.service(time.Minute); err != nil || b.restarts != 0 {
			t.Errorf("%v, %d restarts", err, b.restarts)
		}
		if s := b.status(); s.Default != "a" || s.Running.Slot != "b" || s.Phase != site.UpdateIdle {
			t.Errorf("the status is %+v", s)
		}
	})
}

// A trial that cannot read its state ends with an error: the unit restarts the board.
func TestRun_missingState(t *testing.T) {
	for name, lose := range map[string]func(b *board){
		"none":       func(*board) {},
		"damaged":    func(b *board) { b.Write("var/lib/gatehouse-update/state.json", "\x00\x00\x00") },
		"unreadable": func(b *board) { b.Write("var/lib/gatehouse-update/state.json/x", "") },
		"no folder":  func(b *board) { b.Write("var/lib/gatehouse-update", "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testMissingState(t, lose) })
		})
	}
}

func testMissingState(t *testing.T, lose func(*board)) {
	b := newBoard(t)
	lose(b)
	b.Fill("b", "1.3.0")
	b.run("b")
	if err := b.updater().Settle(t.Context()); err == nil {
		t.Errorf("at the start: %v", err)
	}
	if err := os.RemoveAll(b.Path("run/gatehouse-update")); err != nil { // as systemd does after the failure
		t.Fatal(err)
	}
	if err := b.service(time.Minute); err == nil {
		t.Errorf("the service: %v", err)
	}
	if s := b.status(); s.Phase != site.UpdateTrial || s.Target != "1.3.0" { // for gatehouse-fallback.service
		t.Errorf("the status is %+v", s)
	}
}

// A state that the card has lost is that of a board without updates.
func TestSettle_damagedState(t *testing.T) {
	b := newBoard(t)
	b.Write("var/lib/gatehouse-update/state.json", "\x00\x00\x00")
	b.settle()
	if s := b.status(); s.Phase != site.UpdateIdle || s.Running.Version != "1.2.3" {
		t.Errorf("the status is %+v", s)
	}
}

// A trial waits for the stations of when the update was written too: after a power cut they
// are not back yet when it begins. Without one, those that have left meanwhile are not waited for.
func TestRun_stationsBefore(t *testing.T) {
	for name, c := range map[string]struct {
		since func(b *board)
		want  string
	}{
		"a power cut":              {func(b *board) { b.uptime = time.Minute }, "[1,2,3,4]"},
		"a restart of the gateway": {func(b *board) { b.uptime, b.gateway.started = time.Hour, time.Now().Add(-time.Minute) }, "[1,2,3,4]"},
		"nothing":                  {func(b *board) { b.uptime, b.gateway.started = time.Hour, time.Now().Add(-time.Hour) }, "[3,4]"},
		"a gateway without an answer": {func(b *board) {
			b.uptime, b.gateway.unlists = time.Hour, errDown
		}, "[1,2,3]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(t)
				b.settle()
				b.gateway.online = []site.StationID{1, 2, 3}
				at := time.Now().Add(time.Hour)
				if _, err := b.updater().Update(t.Context(), update.Order{From: update.Source{Path: b.file("1.3.0")}, At: at}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour + time.Minute) // without power
				c.since(b)
				b.settle()
				if b.gateway.online, b.gateway.offline = []site.StationID{3, 4}, []site.StationID{1, 2}; b.gateway.unlists != nil {
					b.gateway.online = nil
				}
				if err := b.service(time.Minute); err != nil || b.restarts != 1 {
					t.Fatalf("%v, %d restarts", err, b.restarts)
				}
				if state := b.Read("var/lib/gatehouse-update/state.json"); !strings.Contains(state, `"online":`+c.want) {
					t.Errorf("the trial waits for others: %s", state)
				}
			})
		})
	}
}
