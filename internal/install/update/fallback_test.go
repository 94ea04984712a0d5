package update_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/install/update"
	"gatehouse/internal/site"
)

// ends reports whether gatehouse-fallback.service would restart the board now: it asks the
// program of the image.
func (b *board) ends() bool {
	b.t.Helper()
	program, err := filepath.Abs("../../../packaging/image/root/usr/lib/gatehouse-image/on-trial")
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.CommandContext(b.t.Context(), "/bin/sh", program, b.Root)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); len(out) > 0 || code < 0 || code > 2 { // grep says 2 of a missing file
		b.t.Fatalf("%s: %v: %s", program, err, out)
	}
	return err == nil
}

// lostRun removes what is in memory, as a start does.
func (b *board) lostRun() {
	b.t.Helper()
	if err := os.RemoveAll(b.Path("run/gatehouse-update")); err != nil {
		b.t.Fatal(err)
	}
}

// Trials are ended by the image itself where the judge does not run, and nothing else is.
func TestFallback_condition(t *testing.T) {
	b := newBoard(t)
	expect := func(when string, want bool) {
		t.Helper()
		if got := b.ends(); got != want {
			t.Errorf("%s: the board restarts: %v, want %v", when, got, want)
		}
	}
	expect("before the first start", false)
	b.settle()
	expect("without an update", false)
	if err := b.install(b.file("1.3.0")); err != nil {
		t.Fatal(err)
	}
	expect("about to restart", true)
	b.restart()
	b.lostRun()
	expect("on trial, with a program that does not run", true)
	b.settle()
	expect("on trial", true)
	b.run("a")
	b.lostRun()
	expect("back, before anything has run", false)
	b.settle()
	expect("back", false)
	b.run("b")
	b.lostRun()
	b.settle()
	expect("chosen by hand", false)
}

// A committed version is not on trial any more.
func TestFallback_committed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t)
		if err := b.service(time.Hour); err != nil {
			t.Fatal(err)
		}
		b.checkCommitted()
		b.lostRun()
		b.settle()
		if text := b.Read("var/lib/gatehouse-update/state.json"); strings.Contains(text, `"trial"`) {
			t.Errorf("the state is %s", text)
		}
	})
}

// A version that cannot read the boot partition is not judged, and its trial ends.
func TestFallback_unreadableBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t)
		back := b.hideBoot()
		if !b.unjudged() {
			t.Error("the board does not restart")
		}
		if s := b.status(); s.Phase != site.UpdateTrial || s.Target != "1.3.0" || s.Default != "" {
			t.Errorf("the status is %+v", s)
		}
		back()
		b.restart()
		b.settle()
		if s := b.status(); s.Running.Slot != "a" || s.Last == nil || !strings.Contains(s.Last.Reason, "cannot read the boot partition") {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

// hideBoot makes the boot partition one that cannot be read, until the function that it
// returns is called.
func (b *board) hideBoot() (back func()) {
	b.t.Helper()
	shown, hidden := b.Path("boot/efi"), b.Path("boot/hidden")
	if err := os.Rename(shown, hidden); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		b.t.Helper()
		if err := os.Rename(hidden, shown); err != nil {
			b.t.Fatal(err)
		}
	}
}

// unjudged runs what a start runs, with errors, and reports whether the board restarts.
func (b *board) unjudged() bool {
	b.t.Helper()
	b.lostRun()
	if err := b.updater().Settle(b.t.Context()); err == nil {
		b.t.Error("Settle is content")
	}
	_ = b.service(time.Minute)
	return b.ends()
}

// The version of before does not restart for a trial that it cannot end, and may take back
// its data.
func TestFallback_unreadableBootOfOldVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t)
		b.run("a")
		b.schema = 9
		back := b.hideBoot()
		for range 3 {
			if b.unjudged() {
				t.Fatal("the board restarts")
			}
			if s := b.status(); s.Phase != site.UpdateIdle || !s.TakeBack {
				t.Errorf("the status is %+v", s)
			}
		}
		back()
		b.settle()
		if s := b.status(); s.Last == nil || s.Last.Outcome != site.UpdateFellBack || !s.TakeBack {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

// Restarts that do not lead back to the old version end.
func TestFallback_noWayBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t)
		b.hideBoot()
		if !b.unjudged() {
			t.Error("the board does not restart the first time")
		}
		if b.unjudged() {
			t.Error("the board restarts again")
		}
		if s := b.status(); s.Phase != site.UpdateIdle || s.Last == nil || s.Last.Outcome != site.UpdateFailed || s.Running.Version != "1.3.0" {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

// A commit that could not be noted is one all the same.
func TestFallback_unnotedCommit(t *testing.T) {
	b := tried(t)
	state := b.Read("var/lib/gatehouse-update/state.json")
	b.Write("boot/efi/loader/loader.conf", strings.Replace(b.Read("boot/efi/loader/loader.conf"), "gatehouse-a", "gatehouse-b", 1))
	if err := (slot.Exchange{Root: b.Root}).WriteStatus(site.UpdateStatus{Image: true, Phase: site.UpdateIdle}); err != nil {
		t.Fatal(err)
	}
	if b.ends() {
		t.Errorf("the board restarts; the state is %s", state)
	}
}

// What of the other slot cannot be read does not keep the status from being published.
func TestFallback_unreadableEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t)
		b.lostRun()
		entry := b.Path("boot/efi/loader/entries/gatehouse-a.conf")
		if err := os.Remove(entry); err != nil {
			t.Fatal(err)
		}
		b.Write("boot/efi/loader/entries/gatehouse-a.conf/x", "")
		b.settle()
		if s := b.status(); s.Phase != site.UpdateTrial || s.Running.Version != "1.3.0" {
			t.Errorf("the status is %+v", s)
		}
	})
}

// A start loader that cannot remove the one shot does not start the same version for ever.
func TestFallback_oneShotStays(t *testing.T) {
	b := newBoard(t)
	b.settle()
	if err := b.install(b.file("1.3.0")); err != nil {
		t.Fatal(err)
	}
	b.run("b") // as the one shot says, which stays
	b.settle()
	if shot := b.oneShot(); shot != "" || b.restart() != "a" {
		t.Errorf("the one shot is %q", shot)
	}
}

// A state that is lost in a trial takes neither the data nor the knowledge of it away.
func TestFallback_lostState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tried(t)
		b.Write("var/lib/gatehouse-update/state.json", "\x00\x00\x00")
		if err := b.service(time.Minute); err == nil || !b.ends() {
			t.Errorf("the service: %v", err)
		}
		b.restart()
		b.schema = 9
		b.settle()
		if s := b.status(); s.Running.Slot != "a" || !s.TakeBack || s.Last == nil || !strings.Contains(s.Last.Reason, "damaged") {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

// A newer version that somebody starts by hand may change the database: the default may take
// its own back.
func TestFallback_chosenByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		if err := b.service(time.Minute); err != nil || b.status().TakeBack {
			t.Fatalf("%v, %+v", err, b.status())
		}
		b.Fill("b", "1.3.0")
		b.run("b")
		b.schema = 10
		b.settle()
		if err := b.service(time.Minute); err != nil || b.status().TakeBack {
			t.Errorf("in slot b: %v, %+v", err, b.status())
		}
		b.run("a")
		b.schema = 9
		b.settle()
		if s := b.status(); !s.TakeBack || s.Phase != site.UpdateIdle {
			t.Errorf("the status is %+v", s)
		}
		if err := b.service(time.Minute); err != nil || b.status().TakeBack {
			t.Errorf("when the gateway is ready: %v, %+v", err, b.status())
		}
	})
}

// An update whose process was killed is over: the service, which that process has started,
// says so.
func TestRun_killed(t *testing.T) {
	killed := func(t *testing.T, phase site.UpdatePhase) {
		b := newBoard(t)
		b.Write("var/lib/gatehouse-update/state.json", `{}`) // as of a board that has long run
		b.settle()
		from := update.Source{Path: b.file("1.3.0")}
		if phase == site.UpdateFetching {
			from = update.Source{URL: "https://example.test/x"}
			b.http = func(cfg *update.Config) { cfg.HTTP = delivering(b.genuine("1.3.0"), new(int)) }
		}
		if !b.kill(from, func(s site.UpdateStatus) bool {
			return s.Phase == phase && (s.Percent > 0 || phase == site.UpdateVerifying)
		}) {
			t.Fatalf("%s: it was not killed", phase)
		}
		if s := b.status(); s.Phase != phase || b.wakes != 1 {
			t.Errorf("%s: the status is %+v; the service was started %d times", phase, s, b.wakes)
		}
		if err := b.service(time.Minute); err != nil {
			t.Fatal(err)
		}
		if s := b.status(); s.Phase != site.UpdateIdle || s.Last == nil || s.Last.Outcome != site.UpdateFailed || !strings.Contains(s.Last.Reason, "interrupted") ||
			s.Last.Version != "1.3.0" && (phase == site.UpdateWriting || phase == site.UpdateVerifying) {
			t.Errorf("%s: the status is %+v, %+v", phase, s, s.Last)
		}
	}
	for _, phase := range []site.UpdatePhase{site.UpdateFetching, site.UpdateChecking, site.UpdateWriting, site.UpdateVerifying} {
		synctest.Test(t, func(t *testing.T) { killed(t, phase) })
	}
}

// What became of an update that was killed is said once, also while the boot partition cannot
// be read.
func TestSettle_killedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		if !b.kill(update.Source{Path: b.file("1.3.0")}, func(s site.UpdateStatus) bool { return s.Phase == site.UpdateWriting }) {
			t.Fatal("it was not killed")
		}
		b.Write("boot/efi/loader/loader.conf", "damaged")
		if err := b.updater().Settle(t.Context()); err == nil {
			t.Fatal("the boot partition can be read")
		}
		first := b.status().Last
		time.Sleep(time.Minute)
		if err := b.service(time.Minute); err == nil || first == nil || *b.status().Last != *first {
			t.Errorf("%v: it was said again: %+v, %+v", err, first, b.status().Last)
		}
	})
}

// A board that nothing restarts takes updates again: the process was killed as it began, or
// the start was not judged.
func TestRun_neverRestarted(t *testing.T) {
	for name, status := range map[string]string{"killed in begin": `{"phase":"verifying"}`, "not judged": `{"phase":"idle"}`} {
		synctest.Test(t, func(t *testing.T) {
			b := newBoard(t)
			b.settle()
			b.Write("var/lib/gatehouse-update/state.json", `{"trial":{"slot":"b","version":"1.3.0"}}`)
			b.Write("run/gatehouse-update/status.json", status)
			if err := b.service(time.Minute); err != nil || b.restarts != 0 {
				t.Errorf("%s: %v, %d restarts", name, err, b.restarts)
			}
			if s := b.status(); s.Phase != site.UpdateIdle || s.Last == nil || s.Last.Outcome != site.UpdateFailed || !strings.Contains(s.Last.Reason, "was not tried") {
				t.Errorf("%s: the status is %+v, %+v", name, s, s.Last)
			}
		})
	}
}

// What a process said of its work before it was killed does not stay.
func TestRun_leftPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.Write("var/lib/gatehouse-update/state.json", `{}`)
		b.settle()
		b.Write("run/gatehouse-update/status.json", `{"phase":"writing"}`)
		if err := b.service(time.Minute); err != nil || b.status().Phase != site.UpdateIdle {
			t.Errorf("%v, %+v", err, b.status())
		}
	})
}

// A version that is the default is on trial no more, even if that could not be noted.
func TestRun_unnotedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		b.Write("var/lib/gatehouse-update/state.json", `{"trial":{"slot":"a","version":"1.2.3","armed":true,"started":true}}`)
		if err := b.service(time.Minute); err != nil || b.restarts != 0 {
			t.Errorf("%v, %d restarts", err, b.restarts)
		}
		if s := b.status(); s.Phase != site.UpdateIdle || s.Last == nil || s.Last.Outcome != site.UpdateCommitted {
			t.Errorf("the status is %+v, %+v", s, s.Last)
		}
	})
}

// A download that is whole is compared with what the server has, and kept while that is the
// same.
func TestUpdate_wholeDownload(t *testing.T) {
	b := newBoard(t)
	version, answers := "1.3.0", map[int]int{}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+version+`"`)
		http.ServeFile(answered{w, answers}, r, b.file(version))
	}))
	for _, version = range []string{"1.3.0", "1.3.0", "1.4.0"} {
		out, err := b.updater().Update(t.Context(), update.Order{From: update.Source{URL: url}, Check: true})
		if err != nil || out.Version != version {
			t.Errorf("the server has %s: %+v, %v", version, out, err)
		}
	}
	down := errors.New("the server is down")
	b.http = func(cfg *update.Config) {
		cfg.HTTP = roundTrip(func(*http.Request) (*http.Response, error) { return nil, down })
	}
	if out, err := b.updater().Update(t.Context(), update.Order{From: update.Source{URL: url}, Check: true}); err != nil || out.Version != version {
		t.Errorf("without the server: %+v, %v", out, err)
	}
	if answers[http.StatusOK] != 2 || answers[http.StatusNotModified] != 1 {
		t.Errorf("the answers were %v", answers)
	}
}

// answered counts the answers by their status, before anything of them is sent.
type answered struct {
	http.ResponseWriter

	counts map[int]int
}

func (a answered) WriteHeader(status int) {
	a.counts[status]++
	a.ResponseWriter.WriteHeader(status)
}

// A mistyped address is no file, and what it holds is not repeated.
func TestUpdate_mistypedAddress(t *testing.T) {
	b := newBoard(t)
	for _, text := range []string{"https:/porter:hunter2@host/x.update", "host.test/x.update?token=hunter2"} {
		from, err := update.ParseSource(text)
		if err == nil {
			_, err = b.updater().Update(t.Context(), update.Order{From: from})
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
		if s := b.status(); s.Last != nil && strings.Contains(s.Last.Reason, "hunter2") {
			t.Errorf("the status is %+v", s.Last)
		}
	}
}

// A process that is killed while it has the board restart leaves a board that on-trial
// restarts, once the service fails: not at once, as a restart takes a moment.
func TestRun_killedInBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		if !b.kill(update.Source{Path: b.file("1.3.0")}, func(s site.UpdateStatus) bool { return s.Phase == site.UpdateRestarting }) {
			t.Fatal("it was not killed")
		}
		began := time.Now()
		if err := b.service(time.Minute); err == nil || time.Since(began) < time.Second || !b.ends() || b.oneShot() != "" {
			t.Errorf("%v after %v, one shot %q; the board restarts: %v", err, time.Since(began), b.oneShot(), b.ends())
		}
	})
}

// The last resort leaves the judge its time, and the restarts two minutes of the fifteen.
func TestFallback_timer(t *testing.T) {
	text, err := os.ReadFile("../../../packaging/image/root/usr/lib/systemd/system/gatehouse-fallback.timer")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^OnBootSec=(\d+)min$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the timer is\n%s", text)
	}
	minutes, _ := strconv.Atoi(string(found[1])) // digits
	if latest := time.Duration(minutes) * time.Minute; latest <= update.LongestTrial || latest > 13*time.Minute {
		t.Errorf("it comes after %s, and a trial may take %s", latest, update.LongestTrial)
	}
}
