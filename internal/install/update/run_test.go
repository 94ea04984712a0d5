package update_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/update"
	"gatehouse/internal/site"
)

// waits returns a board on which version 1.3.0 waits for a moment.
func waits(t *testing.T, at time.Time) *board {
	t.Helper()
	b := newBoard(t)
	b.settle()
	if _, err := b.updater().Update(t.Context(), update.Order{From: update.Source{Path: b.file("1.3.0")}, At: at}); err != nil {
		t.Fatal(err)
	}
	if b.oneShot() != "" || b.restarts != 0 || b.wakes != 2 {
		t.Fatalf("one shot %q, %d restarts, %d wakes", b.oneShot(), b.restarts, b.wakes)
	}
	return b
}

func TestRun_at(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(3 * time.Hour)
		b := waits(t, at)
		for range 3 { // the process, and the board, start again meanwhile
			if err := b.service(30 * time.Minute); err != nil || b.restarts != 0 {
				t.Fatalf("%v, %d restarts", err, b.restarts)
			}
			b.settle()
			if s := b.status(); s.Phase != site.UpdateWaiting || s.Target != "1.3.0" || !s.At.Equal(at) {
				t.Fatalf("the status is %+v", s)
			}
		}
		if err := b.service(3 * time.Hour); err != nil || b.restarts != 1 || b.oneShot() != slot.B {
			t.Errorf("%v, %d restarts, one shot %q", err, b.restarts, b.oneShot())
		}
		if now := time.Now(); now.Before(at) || now.After(at.Add(time.Minute)) {
			t.Errorf("it restarted at %v, not %v", now, at)
		}
	})
}

// A moment that passed without power comes again the next day, at the same hour of the
// site, also where the clocks were changed meanwhile.
func TestRun_missed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Date(2026, 10, 24, 1, 0, 0, 0, zone))) // summer time ends the next night
		b := waits(t, time.Date(2026, 10, 24, 3, 0, 0, 0, zone))
		time.Sleep(9 * time.Hour)
		if err := b.service(time.Minute); err != nil || b.restarts != 0 {
			t.Fatalf("%v, %d restarts at ten in the morning", err, b.restarts)
		}
		if err := b.service(48 * time.Hour); err != nil || b.restarts != 1 {
			t.Fatalf("%v, %d restarts", err, b.restarts)
		}
		want := time.Date(2026, 10, 25, 3, 0, 0, 0, zone)
		if now := time.Now(); now.Before(want) || now.After(want.Add(time.Minute)) {
			t.Errorf("it restarted at %v, not %v", now.In(zone), want)
		}
	})
}

// An update that is not written at its moment restarts at another one within its window.
func TestRun_window(t *testing.T) {
	for _, c := range []struct{ late, end, from time.Duration }{
		{late: -10 * time.Minute, end: 10 * time.Minute, from: 10 * time.Minute}, // in time
		{late: 2 * time.Hour, end: 30 * time.Minute},
		{late: 10 * time.Minute, end: 20 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			seen := map[time.Duration]bool{}
			for range 4 {
				b := newBoard(t)
				b.settle()
				b.upload("1.3.0")
				began := time.Now()
				b.ask(slot.Request{Action: slot.Update, File: true, At: site.At(began.Add(-c.late)), Until: site.At(began.Add(c.end))})
				if err := b.service(time.Hour); err != nil || b.restarts != 1 {
					t.Fatalf("%+v: %v, %d restarts", c, err, b.restarts)
				}
				after := time.Since(began)
				if after < c.from || after > c.end+time.Minute {
					t.Errorf("%+v: it restarts after %s", c, after)
				}
				seen[after] = true
			}
			if spread := len(seen) > 1; spread != (c.from == 0) {
				t.Errorf("%+v: boards restart after %v", c, seen)
			}
		})
	}
}

// A moment that a wrong clock has put years away, before or ahead, comes at its hour of the
// next day.
func TestRun_otherYear(t *testing.T) {
	for _, year := range []int{1970, 2038} {
		synctest.Test(t, func(t *testing.T) {
			zone, err := time.LoadLocation("Europe/Berlin")
			if err != nil {
				t.Fatal(err)
			}
			b := waits(t, time.Date(year, 7, 1, 3, 0, 0, 0, zone))
			if err := b.service(25 * time.Hour); err != nil || b.restarts != 1 {
				t.Fatalf("%d: %v, %d restarts", year, err, b.restarts)
			}
			if now := time.Now().In(zone); now.Hour() != 3 || now.Minute() != 0 {
				t.Errorf("%d: it restarted at %v", year, now)
			}
		})
	}
}

// A service that is stopped at the moment, as by a restart of the board, decides nothing: what
// it has written waits.
func TestRun_stoppedAtMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Hour)
		b := newBoard(t)
		b.settle()
		b.upload("1.3.0")
		b.ask(slot.Request{Action: slot.Update, File: true, At: site.At(at)})
		ctx, stop := context.WithCancel(t.Context())
		b.gateway.lists = func() {
			if !time.Now().Before(at) {
				stop()
			}
		}
		if err := b.updater().Run(ctx); err != nil || ctx.Err() == nil || b.restarts != 0 {
			t.Fatalf("%v, %v, %d restarts", err, ctx.Err(), b.restarts)
		}
		b.settle()
		if s := b.status(); s.Phase != site.UpdateWaiting || s.Last != nil {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
		b.gateway.lists = nil
		if err := b.service(time.Minute); err != nil || b.restarts != 1 || b.oneShot() != slot.B {
			t.Errorf("%v, %d restarts, one shot %q", err, b.restarts, b.oneShot())
		}
	})
}

// What is withdrawn, by the gateway or by root, is tried neither at its moment nor before. To
// withdraw it once more, or to go back while it waits, restarts nothing.
func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t, time.Now().Add(time.Hour))
		b.ask(slot.Request{Action: slot.Rollback})
		if err := b.service(time.Minute); err != nil || b.restarts != 0 || b.status().Phase != site.UpdateWaiting || !strings.Contains(b.status().Last.Reason, "waits in slot b") {
			t.Fatalf("%v, %d restarts, %+v", err, b.restarts, b.status())
		}
		b.ask(slot.Request{Action: slot.Withdraw})
		if err := b.service(time.Minute); err != nil {
			t.Fatal(err)
		}
		if s := b.status(); s.Phase != site.UpdateIdle || s.Last == nil || s.Last.Version != "1.3.0" || !strings.Contains(s.Last.Reason, "withdrawn") {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
		b.ask(slot.Request{Action: slot.Withdraw})
		if err := b.service(2 * time.Hour); err != nil || b.restarts != 0 || b.oneShot() != "" {
			t.Fatalf("%v, %d restarts, one shot %q", err, b.restarts, b.oneShot())
		}
		if _, err := b.updater().Rollback(t.Context(), time.Now().Add(time.Hour), false); err != nil {
			t.Fatal(err)
		}
		if out, err := b.updater().Withdraw(t.Context()); err != nil || !out.Withdrawn || out.Version != "1.3.0" || b.restarts != 0 {
			t.Fatalf("%+v, %v, %d restarts", out, err, b.restarts)
		}
		if _, err := b.updater().Withdraw(t.Context()); !fault.Is(err, fault.Conflict) {
			t.Errorf("withdrawn again: %v", err)
		}
		if _, err := b.updater().Rollback(t.Context(), time.Time{}, false); err != nil || b.restarts != 1 || b.oneShot() != slot.B {
			t.Errorf("%v, %d restarts", err, b.restarts)
		}
	})
}

// A clock that nobody trusts restarts nothing, with the gateway or without it.
func TestRun_untrustedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t, time.Now().Add(time.Hour))
		b.gateway.trusted = false
		if err := b.service(90 * time.Minute); err != nil || b.restarts != 0 || !strings.Contains(b.status().WaitingFor, "a trusted clock") {
			t.Fatalf("%v, %d restarts, %+v", err, b.restarts, b.status())
		}
		b.gateway.err, b.synced = errDown, false
		if err := b.service(time.Minute); err != nil || b.restarts != 0 {
			t.Fatalf("without the gateway: %v, %d restarts", err, b.restarts)
		}
		b.synced = true
		if err := b.service(24 * time.Hour); err != nil || b.restarts != 1 {
			t.Fatalf("with a clock: %v, %d restarts", err, b.restarts)
		}
	})
}

// ask leaves a request of the gateway.
func (b *board) ask(r slot.Request) {
	b.t.Helper()
	b.Write("run/gatehouse/.keep", "")
	r.ID = "request-1"
	if err := (slot.Exchange{Root: b.Root}).Ask(r); err != nil {
		b.t.Fatal(err)
	}
}

// upload puts an update where the gateway puts that of a browser.
func (b *board) upload(version string) {
	b.Write("var/lib/gatehouse/update/upload", string(b.genuine(version)))
}

func TestRun_upload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		b.upload("1.3.0")
		b.ask(slot.Request{Action: slot.Update, File: true})
		if err := b.service(time.Minute); err != nil {
			t.Fatal(err)
		}
		b.holds("1.3.0")
		if b.oneShot() != slot.B || b.restarts != 1 {
			t.Errorf("one shot %q, %d restarts", b.oneShot(), b.restarts)
		}
		if _, err := os.Stat(b.Path("var/lib/gatehouse/update/upload")); err == nil {
			t.Error("the upload is left")
		}
	})
}

// Where a restart that the gateway has asked for fails, so does the service:
// gatehouse-fallback.service restarts the board.
func TestRun_stuckRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, ask := range map[string]func(b *board){
			"an update":  func(b *board) { b.upload("1.3.0"); b.ask(slot.Request{Action: slot.Update, File: true}) },
			"a rollback": func(b *board) { b.Fill("b", "1.2.2"); b.ask(slot.Request{Action: slot.Rollback}) },
		} {
			b := newBoard(t)
			b.Write("var/lib/gatehouse-update/state.json", `{"slots":{"b":{"version":"1.2.2","schema":9}}}`)
			b.settle()
			ask(b)
			b.stuck = errDown
			if err := b.service(time.Minute); !errors.Is(err, errDown) || b.restarts != 1 || b.oneShot() != slot.B || b.status().Phase != site.UpdateRestarting {
				t.Errorf("%s: %v, %d restarts, %+v", name, err, b.restarts, b.status())
			}
			if last := b.status().Last; last == nil || last.Version == "" {
				t.Errorf("%s: the outcome is %+v", name, last)
			}
		}
	})
}

// A request that comes as the board restarts has an outcome too.
func TestRun_requestWhileRestarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		b.gateway.lists = func() { b.ask(slot.Request{Action: slot.Rollback}) }
		if err := b.install(b.file("1.3.0")); err != nil || b.restarts != 1 || b.oneShot() != slot.B {
			t.Fatalf("%v, %d restarts", err, b.restarts)
		}
		if s := b.status(); s.Last == nil || s.Last.Outcome != site.UpdateRefused || !strings.Contains(s.Last.Reason, "to try version 1.3.0") || (slot.Exchange{Root: b.Root}).Asked() {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

// A request replaces what waits, if it is an update.
func TestRun_requestWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t, time.Now().Add(time.Hour))
		began := time.Now()
		b.gateway.asked = func() {
			if time.Since(began) >= 10*time.Minute {
				b.gateway.asked = nil
				b.upload("1.4.0")
				b.ask(slot.Request{Action: slot.Update, File: true})
			}
		}
		if err := b.service(20 * time.Minute); err != nil || b.restarts != 1 {
			t.Fatalf("%v, %d restarts", err, b.restarts)
		}
		b.holds("1.4.0")
	})
}

// What follows an update that was undone and is refused itself, does not hide why it was undone.
func TestRun_refusedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.Write("var/lib/gatehouse-update/state.json", `{"last":{"version":"1.3.0","outcome":"fell-back","time":"2026-11-23T02:00:00.000Z","reason":"it hung"}}`)
		b.settle()
		for range 2 {
			b.ask(slot.Request{Action: slot.Withdraw})
			if err := b.service(time.Minute); err != nil {
				t.Fatal(err)
			}
			b.upload("1.2.3")
			b.ask(slot.Request{Action: slot.Update, File: true})
			if err := b.service(time.Minute); err != nil {
				t.Fatal(err)
			}
			s := b.status()
			if s.Last == nil || s.Last.Outcome != site.UpdateRefused || !strings.Contains(s.Last.Reason, "runs already") {
				t.Errorf("the last one is %+v", s.Last)
			}
			if s.Before == nil || s.Before.Outcome != site.UpdateFellBack || s.Before.Reason != "it hung" {
				t.Errorf("the one before is %+v", s.Before)
			}
		}
		b.upload("1.3.0")
		b.ask(slot.Request{Action: slot.Update, File: true})
		if err := b.service(time.Minute); err != nil || b.restarts != 1 {
			t.Fatalf("%v, %d restarts", err, b.restarts)
		}
		b.run("b")
		b.settle()
		if err := b.service(time.Minute); err != nil || b.status().Last.Outcome != site.UpdateCommitted || b.status().Before != nil {
			t.Errorf("%v, %+v", err, b.status())
		}
	})
}

// Where the default cannot be read, a request is refused with the reason, and not left.
func TestRun_noDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		loader := b.Read("boot/efi/loader/loader.conf")
		b.Write("boot/efi/loader/loader.conf", "timeout 3\n")
		b.upload("1.3.0")
		b.ask(slot.Request{Action: slot.Update, File: true})
		if err := b.service(time.Minute); !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
		s := b.status()
		if s.Last == nil || s.Last.Outcome != site.UpdateRefused || !strings.Contains(s.Last.Reason, "restore that line") || s.Trouble != s.Last.Reason || s.Default != "" {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
		if _, err := os.Stat(b.Path("var/lib/gatehouse/update/upload")); err == nil {
			t.Error("the upload is left")
		}
		b.Write("boot/efi/loader/loader.conf", loader)
		if err := b.service(time.Minute); err != nil || b.restarts != 0 || b.status().Trouble != "" || b.status().Default != "a" {
			t.Errorf("%v, %d restarts, %+v", err, b.restarts, b.status())
		}
	})
}

// A request does not hide that the state of updates was lost.
func TestRun_noDefaultNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.Write("boot/efi/loader/loader.conf", "timeout 3\n")
		b.ask(slot.Request{Action: slot.Rollback})
		if err := b.service(time.Minute); !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.Path("var/lib/gatehouse-update/state.json")); err == nil {
			t.Error("there is a state")
		}
	})
}

// Each request has its own outcome, also where the reason is the same.
func TestRun_refusedTwice(t *testing.T) {
	for name, ask := range map[string]func(b *board){
		"withdrawn": func(b *board) { b.ask(slot.Request{Action: slot.Withdraw}) },
		"malformed": func(b *board) { b.Write("run/gatehouse/update-request.json", "{") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(t)
				b.settle()
				var ends []time.Time
				for range 2 {
					ask(b)
					if err := b.service(time.Minute); err != nil || b.status().Last == nil {
						t.Fatal(err)
					}
					ends = append(ends, b.status().Last.Time.Time)
				}
				if !ends[1].After(ends[0]) {
					t.Errorf("the outcomes are of %v", ends)
				}
			})
		})
	}
}

// Whatever the gateway's user writes, root installs nothing but a newer version that is
// signed, restarts into no other but one that reads the present database, reads no other
// file and removes none.
func TestRun_hostileRequests(t *testing.T) {
	secret := "root:$6$secret"
	for name, c := range map[string]struct {
		hostile func(b *board)
		reason  string
	}{
		"no request":                  {func(b *board) { b.Write("run/gatehouse/update-request.json", "{") }, "The request for an update was refused"},
		"a rollback that loses data":  {func(b *board) { b.Fill("b", "1.2.2"); b.ask(slot.Request{Action: slot.Rollback}) }, "--old-data"},
		"a rollback to an empty slot": {func(b *board) { b.ask(slot.Request{Action: slot.Rollback}) }, "Slot b is empty"},
		"an older version":            {func(b *board) { b.upload("1.2.2"); b.ask(slot.Request{Action: slot.Update, File: true}) }, "older than 1.2.3"},
		"no upload":                   {func(b *board) { b.ask(slot.Request{Action: slot.Update, File: true}) }, "upload it again"},
		"a link": {func(b *board) {
			b.Write("etc/shadow", secret)
			b.link("../../../../etc/shadow", "var/lib/gatehouse/update/upload")
			b.ask(slot.Request{Action: slot.Update, File: true})
		}, "upload it again"},
		"a link of the folder": {func(b *board) {
			b.Write("etc/upload", secret)
			if err := os.RemoveAll(b.Path("var/lib/gatehouse/update")); err != nil {
				b.t.Error(err)
			}
			b.link(b.Path("etc"), "var/lib/gatehouse/update")
			b.ask(slot.Request{Action: slot.Update, File: true})
		}, "upload it again"},
		"a folder": {func(b *board) {
			b.Write("var/lib/gatehouse/update/upload/x", "")
			b.ask(slot.Request{Action: slot.Update, File: true})
		}, "is no file"},
		"an old SHA-256": {func(b *board) {
			b.upload("1.3.0")
			b.ask(slot.Request{Action: slot.Update, File: true, SHA256: strings.Repeat("0", 64)})
		}, "another SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(t)
				b.settle()
				before := b.running()
				c.hostile(b)
				if err := b.service(time.Minute); err != nil {
					t.Fatal(err)
				}
				b.untouched(before)
				s := b.status()
				if s.Last == nil || s.Last.Outcome != site.UpdateRefused || !strings.Contains(s.Last.Reason, c.reason) || strings.Contains(fmt.Sprint(*s.Last), "secret") {
					t.Errorf("the status is %+v, %+v", s, s.Last)
				}
				if info, err := os.Lstat(b.Path("var/lib/gatehouse/update/upload")); err == nil && info.Mode().IsRegular() && name != "a link of the folder" {
					t.Error("the upload stays on the card")
				}
				for _, path := range []string{"etc/shadow", "etc/upload"} {
					if text, err := os.ReadFile(b.Path(path)); err == nil && string(text) != secret {
						t.Errorf("%s has %q", path, text)
					}
				}
			})
		})
	}
}

// Orders that are refused at once do not end the service each time: started more than
// five times in ten seconds, systemd would start it no more.
func TestRun_manyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		began, starts := time.Now(), 0
		for time.Since(began) < 10*time.Second {
			if starts == 0 { // the others are of commands that were refused
				b.ask(slot.Request{Action: slot.Rollback})
			}
			if err := b.service(time.Minute); err != nil {
				t.Fatal(err)
			}
			if starts++; starts > 4 {
				t.Fatalf("the service has ended %d times within %v", starts, time.Since(began))
			}
		}
		b.upload("1.3.0")
		b.ask(slot.Request{Action: slot.Update, File: true})
		if err := b.service(time.Minute); err != nil || b.restarts != 1 {
			t.Errorf("%v, %d restarts", err, b.restarts)
		}
	})
}

// A request that cannot be removed neither ends the service, which its path unit would
// start again and again, nor wears the card out.
func TestRun_stuckRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		b.Write("run/gatehouse/update-request.json/file", "")
		began := time.Now()
		if err := b.service(time.Minute); err != nil || time.Since(began) < time.Minute {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		if s := b.status(); s.Last == nil || s.Last.Outcome != site.UpdateRefused || time.Since(s.Last.Time.Time) < time.Minute {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

func (b *board) link(to, path string) {
	b.t.Helper()
	if err := os.Symlink(to, b.Path(path)); err != nil {
		b.t.Fatal(err)
	}
}

// returnable returns a board on which 1.3.0 runs for good, trusts that key, and has the
// schema of 1.2.3 in the other slot.
func returnable(t *testing.T, key api.PrivateKey) *board {
	t.Helper()
	b := tried(t, 1)
	if err := b.service(time.Hour); err != nil {
		t.Fatal(err)
	}
	b.checkCommitted()
	b.trust(key)
	b.schema, b.restarts = 9, 0
	b.settle()
	return b
}

func TestRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := returnable(t, releaseKey())
		out, err := b.updater().Rollback(t.Context(), time.Time{}, false)
		if err != nil || out.Version != "1.2.3" || out.Slot != slot.A || b.restarts != 1 {
			t.Fatalf("%+v, %v, %d restarts", out, err, b.restarts)
		}
		if b.restart() != "a" {
			t.Fatal("slot a does not start")
		}
		b.restarts = 0
		b.settle()
		if s := b.status(); s.Phase != site.UpdateTrial || s.Running.Version != "1.2.3" || s.TakeBack {
			t.Errorf("the status is %+v", s)
		}
		if err := b.service(time.Hour); err != nil {
			t.Fatal(err)
		}
		if s := b.status(); s.Default != "a" || s.Last.Outcome != site.UpdateCommitted || s.Last.Version != "1.2.3" {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

// The gateway may ask for the version before, which is tried as root's own wish is.
func TestRun_rollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := returnable(t, releaseKey())
		b.ask(slot.Request{Action: slot.Rollback})
		if err := b.service(time.Minute); err != nil || b.restarts != 1 {
			t.Fatalf("%v, %d restarts", err, b.restarts)
		}
		if b.restart() != "a" {
			t.Error("slot a does not start")
		}
		b.settle()
		if s := b.status(); s.Phase != site.UpdateTrial || s.Running.Version != "1.2.3" || s.TakeBack {
			t.Errorf("the status is %+v", s)
		}
	})
}

// The gateway may not ask for a version that takes updates of a key which the present one no
// longer trusts; root may.
func TestRun_rollbackToDroppedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, err := api.Generate("next")
		if err != nil {
			t.Fatal(err)
		}
		b := returnable(t, next) // alone: the release key of 1.2.3 was stolen
		b.ask(slot.Request{Action: slot.Rollback})
		if err := b.service(time.Minute); err != nil || b.restarts != 0 || b.oneShot() != "" {
			t.Fatalf("%v, %d restarts, one shot %q", err, b.restarts, b.oneShot())
		}
		if last := b.status().Last; last.Outcome != site.UpdateRefused || !strings.Contains(last.Reason, "1.2.3 takes updates of a key") {
			t.Errorf("the outcome is %+v", last)
		}
		b.trust(b.key, next) // with both, nothing is gained by it
		b.ask(slot.Request{Action: slot.Rollback})
		if err := b.service(time.Minute); err != nil || b.restarts != 1 {
			t.Fatalf("%v, %d restarts", err, b.restarts)
		}
		b.trust(next)
		b.run("b")
		b.restarts = 0
		b.settle()
		if _, err := b.updater().Rollback(t.Context(), time.Time{}, false); err != nil || b.restarts != 1 {
			t.Errorf("root is refused: %v, %d restarts", err, b.restarts)
		}
	})
}

// What fell back may be tried again, whatever keys it trusts.
func TestRun_triedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t, 1)
		next, err := api.Generate("next")
		if err != nil {
			t.Fatal(err)
		}
		b.trust(b.key, next)
		b.settle()
		b.restart() // the power fails
		b.trust(b.key)
		b.restarts = 0
		b.settle()
		if last := b.status().Last; last.Outcome != site.UpdateFellBack {
			t.Fatalf("the outcome is %+v", last)
		}
		b.ask(slot.Request{Action: slot.Rollback})
		if err := b.service(time.Minute); err != nil || b.restarts != 1 || b.oneShot() != slot.B {
			t.Errorf("%v, %d restarts, one shot %q, %+v", err, b.restarts, b.oneShot(), b.status().Last)
		}
	})
}

// A version that cannot read the present database is started with the older one only.
func TestRollback_oldData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t, 1)
		if err := b.service(time.Hour); err != nil {
			t.Fatal(err)
		}
		b.restart()
		b.settle()
		if _, err := b.updater().Rollback(t.Context(), time.Time{}, false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "--old-data") || b.restarts != 0 {
			t.Fatalf("%v, %d restarts", err, b.restarts)
		}
		if out, err := b.updater().Rollback(t.Context(), time.Time{}, true); err != nil || out.Version != "1.2.3" || b.restarts != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		b.restart()
		b.schema = 9
		b.settle()
		if s := b.status(); s.Phase != site.UpdateTrial || !s.TakeBack {
			t.Errorf("the status is %+v", s)
		}
		if err := b.service(time.Hour); err != nil || b.status().TakeBack {
			t.Errorf("%+v, %v", b.status(), err)
		}
	})
}

func TestRollback_refuses(t *testing.T) {
	b := newBoard(t)
	b.settle()
	if _, err := b.updater().Rollback(t.Context(), time.Time{}, false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "Slot b is empty") {
		t.Errorf("to an empty slot: %v", err)
	}
	b.Fill("b", "1.2.2")
	if _, err := b.updater().Rollback(t.Context(), time.Time{}, false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "--old-data") {
		t.Errorf("to a version of an unknown schema: %v", err)
	}
}

func TestRollback_at(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		b.Fill("b", "1.2.2")
		out, err := b.updater().Rollback(t.Context(), time.Now().Add(time.Hour), true)
		if err != nil || out.Version != "1.2.2" || b.wakes != 2 || b.oneShot() != "" {
			t.Fatalf("%+v, %v", out, err)
		}
		if err := b.service(2 * time.Hour); err != nil || b.restarts != 1 || b.oneShot() != slot.B {
			t.Errorf("%v, %d restarts", err, b.restarts)
		}
	})
}
