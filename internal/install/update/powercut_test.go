package update_test

import (
	"errors"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	"gatehouse/internal/install/update"
	"gatehouse/internal/site"
)

var errKilled = errors.New("the process is killed, or the power cut")

// kill begins an update, and ends its process at the first status that is meant; false where
// the update ended before.
func (b *board) kill(from update.Source, meant func(site.UpdateStatus) bool) (killed bool) {
	b.t.Helper()
	b.onShow = func(s site.UpdateStatus) {
		if meant(s) {
			killed = true
			panic(errKilled)
		}
	}
	defer func() {
		b.onShow = nil
		if reason := recover(); reason != nil && reason != any(errKilled) {
			panic(reason)
		}
	}()
	if _, err := b.updater().Update(b.t.Context(), update.Order{From: from}); err != nil {
		b.t.Error(err)
	}
	return false
}

// Wherever the power is cut within an update, the board starts the old version or, whole,
// the new one, and says what became of the update; and the same update installs it after that.
func TestUpdate_powerCuts(t *testing.T) {
	tried, old := 0, 0
	for n, whole := 1, false; !whole && !t.Failed(); n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) { whole = !cutAt(t, n, &tried, &old) })
	}
	if tried < 1 || old < 10 {
		t.Errorf("%d cuts led to a trial and %d to the old version: were they at every step?", tried, old)
	}
}

// cutAt cuts the power at the n-th status of an update; false where the update ended before.
func cutAt(t *testing.T, n int, tried, old *int) bool {
	t.Helper()
	b := newBoard(t)
	b.settle()
	before, file := b.running(), b.file("1.3.0")
	left := n
	if !b.kill(update.Source{Path: file}, func(site.UpdateStatus) bool { left--; return left == 0 }) {
		return false
	}
	if now := b.running(); !maps.Equal(now, before) {
		t.Fatalf("cut %d: what runs was changed", n)
	}
	if err := os.RemoveAll(b.Path("run")); err != nil {
		t.Fatal(err)
	}
	switch b.restart() {
	case "b":
		*tried++
		b.holds("1.3.0")
		b.settle()
		if s := b.status(); s.Phase != site.UpdateTrial {
			t.Errorf("cut %d: the status is %+v", n, s)
		}
		return true
	case "a":
		*old++
	}
	b.settle()
	if s := b.status(); s.Phase != site.UpdateIdle && s.Phase != site.UpdateWaiting || s.Last != nil && strings.Contains(s.Last.Reason, "did not start") {
		t.Errorf("cut %d: the status is %+v, %+v", n, s, s.Last)
	}
	if s := b.status(); s.Phase == site.UpdateIdle && (s.Last == nil || s.Last.Outcome != site.UpdateFailed) {
		t.Errorf("cut %d: nobody says how it ended: %+v", n, s.Last)
	}
	b.restarts = 0
	if err := b.install(file); err != nil {
		t.Errorf("cut %d, and again: %v", n, err)
	}
	b.holds("1.3.0")
	if b.restart() != "b" {
		t.Errorf("cut %d, and again: slot b does not start", n)
	}
	return true
}
