package cloudlink_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// A restored gateway does not know what it took after the backup: it takes what was
// signed since a trusted clock has told the time, also when that is told while the disk
// fails, and after another start.
func TestCommands_handle_restored(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.waiting, w.unsure = true, true
		c := w.commands()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		<-time.After(15 * time.Second)
		before := w.sign(w.good("c-1"))
		c.Handle(ctx, before, false, time.Now())
		synctest.Wait()
		if got := w.last(); got.Reason != "not-permitted" || !strings.Contains(got.Message, "clock is synchronised") {
			t.Errorf("with no trusted clock: %+v", got)
		}
		w.set(func() { w.unsure, w.disk = false, fault.New(fault.Unavailable, "full") })
		<-time.After(9 * time.Second) // beyond the moment of 20 s
		w.send(c, "c-2")
		if got := w.last(); got.Reason != "not-permitted" || w.unlocks() != 0 {
			t.Errorf("it could have been taken before from a signer whose clock is five seconds ahead: %+v", got)
		}
		<-time.After(time.Second)
		c.Handle(ctx, before, false, time.Now())
		synctest.Wait()
		if got := w.last(); got.Reason != "not-permitted" || !strings.Contains(got.Message, "sign a new command") || w.unlocks() != 0 {
			t.Errorf("signed before: %+v", got)
		}
		w.send(c, "c-3")
		if w.last().Outcome != site.Done {
			t.Errorf("signed since: %+v", w.last())
		}
		w.set(func() { w.disk = nil })
		<-time.After(10 * time.Second)
		kept := time.Now().Add(-10 * time.Second)
		cancel()
		running.Wait()
		if w.waiting || !w.from.Equal(kept) {
			t.Errorf("kept: from %s, waiting %t, want %s", w.from, w.waiting, kept)
		}
		w.commands().Handle(t.Context(), before, false, time.Now())
		synctest.Wait()
		if got := w.last(); got.Reason != "not-permitted" || w.unlocks() != 1 {
			t.Errorf("after another start: %+v", got)
		}
		if strings.Count(w.log.String(), "taken again after a restore") != 1 {
			t.Errorf("logged %s", w.log)
		}
	})
}
