package cloudlink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloudlink"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/unlock"
)

// A process that is killed while a command is under way tells at its next start that
// nobody knows how it ended, and carries no copy out.
func TestNewCommands_afterAKill(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		killed := w.commands()
		token := w.sign(w.good("c-1"))
		hold := make(chan struct{})
		w.onUnlock = func(unlock.Request) { <-hold }
		killed.Handle(context.Background(), token, false, time.Now())
		synctest.Wait()
		next := w.commands()
		if got := w.last(); got.ID != "c-1" || got.Outcome != site.Unresolved || !got.Time.Equal(site.At(w.Now()).Time) || len(w.results) != 1 {
			t.Errorf("answered %+v", w.results)
		}
		if row, _ := w.row("c-1"); row.Outcome != site.Unresolved {
			t.Errorf("kept as %+v", row)
		}
		next.Handle(t.Context(), token, false, time.Now())
		synctest.Wait()
		if got := w.last(); got.Reason != "repeated" || got.First.Outcome != site.Unresolved || w.unlocks() != 1 {
			t.Errorf("answered %+v, %d unlocks", got, w.unlocks())
		}
		close(hold)
	})
}

// That nobody knows is kept later, where the disk does not take it at the start.
func TestNewCommands_afterAKill_storageStalls(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.rows["c-1"] = site.TakenCommand{ID: "c-1", Until: w.Now(), Outcome: site.Requested}
		w.stalls = true
		c := w.commands()
		w.set(func() { w.stalls = false })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.Run(ctx)
		if row, _ := w.row("c-1"); row.Outcome != site.Unresolved || row.Ended.IsZero() {
			t.Errorf("kept as %+v", row)
		}
	})
}

// What ended before a restart is remembered as it ended, and not answered again.
func TestNewCommands_afterAnEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send(w.commands(), "c-1")
		next := w.commands()
		if len(w.results) != 1 {
			t.Errorf("answered %+v", w.results)
		}
		w.send(next, "c-1")
		if got := w.last(); got.Reason != "repeated" || got.First.Outcome != site.Done || w.unlocks() != 1 {
			t.Errorf("answered %+v, %d unlocks", got, w.unlocks())
		}
	})
}

func TestNewCommands_fails(t *testing.T) {
	w := newWorld(t)
	w.disk = errors.New("disk")
	if _, err := cloudlink.NewCommands(t.Context(), w.config()); err == nil {
		t.Error("started without its memory")
	}
}

// While the disk fails doors open, none of them twice; when it works again it is given
// what it missed.
func TestCommands_handle_storageFails(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		w.set(func() { w.disk = fault.New(fault.Unavailable, "full") })
		w.send(c, "c-1")
		w.send(c, "c-1")
		if w.unlocks() != 1 || w.last().Reason != "repeated" || w.last().First.Outcome != site.Done {
			t.Errorf("%d unlocks, answered %+v", w.unlocks(), w.results)
		}
		w.send(c, "c-2")
		<-time.After(time.Minute)
		w.set(func() { w.disk = nil })
		<-time.After(11 * time.Second)
		for _, id := range []string{"c-1", "c-2"} {
			if row, ok := w.row(id); !ok || row.Outcome != site.Done || row.Ended.IsZero() {
				t.Errorf("%s is kept as %+v", id, row)
			}
		}
		w.set(func() { w.events = nil })
		w.send(c, "c-3")
		events, _, _ := w.seen()
		if want := []string{"take c-3", "unlock c-3", "end c-3 done"}; !slices.Equal(events, want) {
			t.Errorf("with the disk back: %v", events)
		}
		<-time.After(time.Minute)
		if events, _, _ := w.seen(); len(events) != 3 {
			t.Errorf("written again without need: %v", events)
		}
		cancel()
		running.Wait()
		if strings.Count(w.log.String(), "level=ERROR") != 1 || strings.Count(w.log.String(), "on disk again") != 1 {
			t.Errorf("logged %s", w.log)
		}
	})
}

// A disk that does not answer keeps the first command waiting for two seconds, and no
// other.
func TestCommands_handle_storageStalls(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.set(func() { w.stalls = true })
		began := time.Now()
		w.send(c, "c-1")
		if waited := time.Since(began); waited != 2*time.Second || w.unlocks() != 1 {
			t.Errorf("opened %d after %s", w.unlocks(), waited)
		}
		w.send(c, "c-2")
		if waited := time.Since(began); waited != 2*time.Second || w.unlocks() != 2 {
			t.Errorf("the second: opened %d after %s", w.unlocks(), waited)
		}
	})
}

// What was not stored is stored at the end of the process at last, for which a disk
// that stalls is not waited for long.
func TestCommands_run_ends(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.set(func() { w.disk = fault.New(fault.Unavailable, "full") })
		w.send(c, "c-1")
		w.set(func() { w.disk = nil })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.Run(ctx)
		if row, ok := w.row("c-1"); !ok || row.Outcome != site.Done {
			t.Errorf("kept as %+v", row)
		}
		w.set(func() { w.disk = fault.New(fault.Unavailable, "full") })
		w.send(c, "c-2")
		w.set(func() { w.disk, w.stalls = nil, true })
		began := time.Now()
		c.Run(ctx)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("ending took %s", took)
		}
	})
}

// An id that is on disk is taken, whatever the process remembers.
func TestCommands_handle_conflict(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.rows["c-1"] = site.TakenCommand{ID: "c-1", Until: w.Now(), Outcome: site.Done}
		for range 2 {
			w.send(c, "c-1")
			if got := w.last(); got.Reason != "repeated" || got.First.Outcome != site.Unresolved || w.unlocks() != 0 {
				t.Errorf("answered %+v, %d unlocks", got, w.unlocks())
			}
		}
	})
}

// An attempt that ended for the process and not for the disk is no repetition.
func TestCommands_handle_storedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.set(func() { w.stalls = true })
		w.onUnlock = func(req unlock.Request) {
			w.set(func() {
				w.stalls = false
				w.rows["c-1"] = site.TakenCommand{ID: "c-1", Until: req.Until, Outcome: site.Requested}
			})
		}
		w.send(c, "c-1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.Run(ctx)
		if row, _ := w.row("c-1"); row.Outcome != site.Done || w.last().Outcome != site.Done {
			t.Errorf("kept as %+v, answered %+v", row, w.last())
		}
	})
}

func TestCommands_handle_busy(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for n := range cloudlink.MaxTaken {
			id := strconv.Itoa(n)
			w.rows[id] = site.TakenCommand{ID: id, Until: w.Now().Add(time.Minute), Outcome: site.Done}
		}
		c := w.commands()
		w.send(c, "one more")
		if got := w.last(); got.Reason != "busy" || w.unlocks() != 0 {
			t.Errorf("answered %+v", got)
		}
		w.send(c, "17")
		if w.last().Reason != "repeated" {
			t.Errorf("answered %+v", w.last())
		}
	})
}

// An id is forgotten when no clock can accept its command again: five seconds after
// its end, by the time that the disk is sure of and by the clock.
func TestCommands_run_forgets(t *testing.T) {
	end := 30 * time.Second // of c-1, after the beginning
	for _, c := range []struct {
		name         string
		floor, ahead time.Duration
		gone         bool
	}{
		{"everything is past", end + 6*time.Second, 0, true},
		{"to the margin", end + 5*time.Second, 0, false},
		{"just beyond the margin", end + 5*time.Second + time.Millisecond, 0, true},
		{"the disk is sure of nothing", -time.Hour, 0, false},
		{"the disk is sure of the end", end, time.Hour, false},
		{"the clock has not followed yet", time.Hour, -2 * time.Minute, false},
		{"the clock has just followed", time.Hour, 0, true},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			commands := w.commands()
			began := w.Now()
			w.send(commands, "c-1")
			w.set(func() { w.floor, w.ahead = began.Add(c.floor), c.ahead })
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { commands.Run(ctx) })
			<-time.After(2*time.Minute + time.Second) // and nothing is looked for for nine more
			if _, there := w.row("c-1"); there == c.gone {
				t.Errorf("%s: on disk: %t", c.name, there)
			}
			w.set(func() { w.rows, w.ahead = map[string]site.TakenCommand{}, 0 })
			w.send(commands, "c-1")
			if forgotten := w.unlocks() == 2; forgotten != c.gone {
				t.Errorf("%s: forgotten by the process: %t", c.name, forgotten)
			}
			cancel()
			running.Wait()
		})
	}
}

// The disk may know a later time than the clock, until that follows.
func TestCommands_run_forgets_notAheadOfTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.send(c, "c-1")
		<-time.After(55 * time.Second)
		w.send(c, "c-2")
		w.set(func() { w.floor = time.Now().Add(time.Hour) })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		<-time.After(11 * time.Second)
		_, first := w.row("c-1")
		_, second := w.row("c-2")
		if first || !second {
			t.Errorf("the one that ended is kept: %t, the one that has not: %t", first, second)
		}
		cancel()
		running.Wait()
	})
}

// With nothing to forget the disk is left alone, and one that fails loses no id.
func TestCommands_run_forgets_leavesTheDiskAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		<-time.After(10 * time.Minute)
		if _, _, asked := w.seen(); asked != 0 {
			t.Errorf("asked %d times", asked)
		}
		w.send(c, "c-1")
		synctest.Wait() // it has ended, and the disk knows
		w.set(func() { w.disk, w.floor = fault.New(fault.Unavailable, "full"), time.Now().Add(time.Hour) })
		<-time.After(3 * time.Minute)
		if _, _, asked := w.seen(); asked == 0 || asked > 3 {
			t.Errorf("asked %d times in three minutes", asked)
		}
		w.set(func() { w.rows = map[string]site.TakenCommand{} })
		w.send(c, "c-1")
		if w.last().Reason != "repeated" {
			t.Errorf("answered %+v", w.last())
		}
		w.set(func() { w.disk = nil })
		<-time.After(2 * time.Minute)
		_, _, asked := w.seen()
		<-time.After(10 * time.Minute)
		if _, _, later := w.seen(); later != asked {
			t.Errorf("asked %d times, then %d", asked, later)
		}
		cancel()
		running.Wait()
	})
}

// A command may be forgotten before its end is kept: that is no failing disk.
func TestCommands_handle_forgottenMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.onUnlock = func(unlock.Request) { w.set(func() { clear(w.rows) }) }
		w.send(w.commands(), "c-1")
		if w.last().Outcome != site.Done || strings.Contains(w.log.String(), "storage") {
			t.Errorf("answered %+v, logged %s", w.last(), w.log)
		}
	})
}

// keep has commands run, until what it gives is called.
func keep(c *cloudlink.Commands) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// A disk that hangs, whatever the context says, keeps one command waiting for two
// seconds and is not asked again before it has answered; then it is given everything.
func TestCommands_handle_storageHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		end := keep(c)
		<-time.After(time.Second)
		hangs := make(chan struct{})
		w.set(func() { w.hangs = hangs })
		began := time.Now()
		w.send(c, "c-1")
		w.send(c, "c-2")
		if waited := time.Since(began); waited != 2*time.Second || w.unlocks() != 2 || w.last().Outcome != site.Done {
			t.Errorf("%d opened after %s, answered %+v", w.unlocks(), waited, w.results)
		}
		w.send(c, "c-1")
		if w.last().Reason != "repeated" || w.unlocks() != 2 {
			t.Errorf("answered %+v, %d unlocks", w.last(), w.unlocks())
		}
		<-time.After(time.Minute)
		w.set(func() {
			if w.most != 1 {
				t.Errorf("%d calls hang at once", w.most)
			}
			w.hangs = nil
		})
		close(hangs)
		<-time.After(11 * time.Second)
		for _, id := range []string{"c-1", "c-2"} {
			if row, ok := w.row(id); !ok || row.Outcome != site.Done || row.Ended.IsZero() {
				t.Errorf("%s is kept as %+v", id, row)
			}
		}
		end()
		synctest.Wait()
		if strings.Count(w.log.String(), "level=ERROR") != 1 || strings.Count(w.log.String(), "on disk again") != 1 {
			t.Errorf("logged %s", w.log)
		}
	})
}

// A disk that begins to hang while a command is carried out delays neither its answer
// nor, for long, the end of the process.
func TestCommands_run_ends_storageHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		end := keep(c)
		hangs := make(chan struct{})
		w.onUnlock = func(unlock.Request) { w.set(func() { w.hangs = hangs }) }
		w.send(c, "c-1")
		if w.last().Outcome != site.Done {
			t.Errorf("answered %+v", w.last())
		}
		began := time.Now()
		end()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("ending took %s", took)
		}
		close(hangs)
		synctest.Wait()
		if row, _ := w.row("c-1"); row.Outcome != site.Done {
			t.Errorf("the late call kept it as %+v", row)
		}
	})
}

// Whatever tidying does while an id is on its way to the disk, its command is no
// repetition of itself.
func TestCommands_run_tidiesWhileTaking(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		hangs := make(chan struct{})
		w.set(func() { w.hangs = hangs })
		go c.Handle(context.Background(), w.sign(w.good("c-1")), false, time.Now())
		synctest.Wait()
		w.set(func() { w.hangs = nil })
		defer keep(c)()
		synctest.Wait()
		close(hangs)
		synctest.Wait()
		if got := w.last(); got.Outcome != site.Done || w.unlocks() != 1 {
			t.Errorf("answered %+v, %d unlocks", got, w.unlocks())
		}
	})
}

// crowd gives commands that remember as many ids as they can, all of which end in a
// minute, the last of them "last" at that time.
func (w *world) crowd() (c *cloudlink.Commands, end time.Time) {
	end = w.Now().Add(time.Minute)
	w.rows["last"] = site.TakenCommand{ID: "last", Until: end, Outcome: site.Done}
	for n := range cloudlink.MaxTaken - 1 {
		id := strconv.Itoa(n)
		w.rows[id] = site.TakenCommand{ID: id, Until: end.Add(-time.Second), Outcome: site.Done}
	}
	return w.commands(), end
}

// With no clock that is trusted, ids are forgotten by the present one when there are too
// many; what was issued before their end is then refused for ever.
func TestCommands_run_forgets_crowded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.unsure = true
		c, end := w.crowd()
		old := w.good("17")
		old.Expires = end.Add(-time.Second)
		token := w.sign(old)
		stop := keep(c)
		<-time.After(64 * time.Second)
		w.send(c, "too early")
		if from, kept := w.line(); w.last().Reason != "busy" || !from.IsZero() || kept != cloudlink.MaxTaken {
			t.Errorf("before the margin: answered %+v, from %s, %d kept", w.last(), from, kept)
		}
		<-time.After(7 * time.Second)
		w.send(c, "c-1")
		if from, kept := w.line(); w.last().Outcome != site.Done || from.Before(end) || from.After(end.Add(time.Millisecond)) || kept != 1 {
			t.Errorf("answered %+v, from %s, %d kept", w.last(), from, kept)
		}
		stop()
		for _, c := range []*cloudlink.Commands{c, w.commands()} { // the second: after a restart
			w.set(func() { w.ahead = -time.Minute })
			c.Handle(t.Context(), token, false, time.Now())
			if got := w.last(); got.Reason != "not-permitted" || !strings.Contains(got.Message, "sign a new command") || w.unlocks() != 1 {
				t.Errorf("with the clock set back: %+v", got)
			}
			w.set(func() { w.ahead = 0 })
			w.send(c, "c-1")
			if w.last().Reason != "repeated" {
				t.Errorf("what was not forgotten: %+v", w.last())
			}
		}
	})
}

// What cannot be kept safe from a repetition is not forgotten.
func TestCommands_run_forgets_crowded_notSafe(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"the disk fails":                      func(w *world) { w.disk = fault.New(fault.Unavailable, "full") },
		"a restored gateway waits for a time": func(w *world) { w.waiting = true },
	} {
		inBubble(t, func(t *testing.T, w *world) {
			w.unsure = true
			if name[0] == 'a' {
				spoil(w)
			}
			c, _ := w.crowd()
			w.set(func() { spoil(w) })
			stop := keep(c)
			<-time.After(2 * time.Minute)
			stop()
			if len(w.rows) != cloudlink.MaxTaken || !w.from.IsZero() {
				t.Errorf("%s: %d kept, from %s", name, len(w.rows), w.from)
			}
			w.set(func() { w.disk, w.waiting, w.unsure = nil, false, false })
			c.Handle(t.Context(), w.sign(w.good("17")), false, time.Now())
			if w.last().Outcome != site.Refused || w.unlocks() != 0 {
				t.Errorf("%s: answered %+v", name, w.last())
			}
		})
	}
}

// An id that is forgotten between the look at its command and its taking opens nothing.
func TestCommands_handle_forgottenWhileJudged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, _ := w.crowd()
		end := keep(c)
		token := w.sign(w.good("last"))
		w.onState = func() {
			w.set(func() { w.ahead = time.Hour })
			<-time.After(time.Minute + 10*time.Second)
		}
		c.Handle(t.Context(), token, false, time.Now())
		synctest.Wait()
		end()
		if got := w.last(); got.Reason != "not-permitted" || w.unlocks() != 0 {
			t.Errorf("answered %+v, %d unlocks", got, w.unlocks())
		}
	})
}

// A failure that is over keeps no command off the disk: neither one that came at once,
// which says nothing of the next call, nor one that took its time, after the next try.
func TestCommands_handle_storageWorksAgain(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"at once":   func(w *world) { w.disk = fault.New(fault.Unavailable, "full") },
		"in a time": func(w *world) { w.stalls = true },
	} {
		inBubble(t, func(t *testing.T, w *world) {
			c := w.commands()
			end := keep(c)
			w.send(c, "c-0")
			<-time.After(55 * time.Second)
			w.set(func() { w.floor = time.Now().Add(time.Hour); spoil(w) })
			<-time.After(11 * time.Second) // it is to forget c-0, and fails
			synctest.Wait()
			if !strings.Contains(w.log.String(), "storage fails") {
				t.Fatalf("%s: the disk did not fail", name)
			}
			w.set(func() { w.disk, w.stalls = nil, false })
			<-time.After(11 * time.Second)
			token := w.sign(w.good("c-1"))
			c.Handle(t.Context(), token, false, time.Now())
			synctest.Wait()
			if _, there := w.row("c-1"); !there {
				t.Errorf("%s: c-1 is carried out, and not on a disk that works", name)
			}
			w.commands().Handle(t.Context(), token, false, time.Now()) // after a kill
			synctest.Wait()
			if n := w.unlocks(); n != 2 {
				t.Errorf("%s: %d unlocks by two commands", name, n)
			}
			end()
		})
	}
}

// Of the commands that come in the moment in which a call of the disk becomes late, all
// are on disk when it works again.
func TestCommands_handle_storageBecomesLate(t *testing.T) {
	for range 50 {
		inBubble(t, func(t *testing.T, w *world) {
			c := w.commands()
			hangs := make(chan struct{})
			w.set(func() { w.hangs = hangs })
			var all sync.WaitGroup
			all.Go(func() { c.Handle(t.Context(), w.sign(w.good("first")), false, time.Now()) })
			synctest.Wait()
			for i := range 60 {
				cmd := w.good(fmt.Sprint("c-", i))
				cmd.Station += site.StationID(i) // one has not as many places
				token := w.sign(cmd)
				all.Go(func() {
					<-time.After(2 * time.Second) // when nobody waits for the first any more
					c.Handle(t.Context(), token, false, time.Now())
				})
			}
			<-time.After(3 * time.Second)
			w.set(func() { w.hangs = nil })
			close(hangs)
			all.Wait()
			end := keep(c)
			<-time.After(11 * time.Second)
			for i := range 60 {
				if _, there := w.row(fmt.Sprint("c-", i)); !there {
					t.Errorf("c-%d is not on disk", i)
				}
			}
			end()
		})
		if t.Failed() {
			return
		}
	}
}

// What comes while the gateway ends is refused: nobody would see it through.
func TestCommands_run_takesNoneAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		keep(c)()
		w.send(c, "c-1")
		if w.last().Reason != "busy" || w.unlocks() != 0 {
			t.Errorf("answered %+v, %d unlocks", w.last(), w.unlocks())
		}
	})
}

// That a disk works is said when it does: a command that is being carried out and needs
// nothing of it says nothing.
func TestCommands_run_logsNoFalseHope(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		release := make(chan struct{})
		w.onUnlock = func(req unlock.Request) {
			if req.JTI == "c-0" {
				<-release
			}
		}
		end := keep(c)
		w.send(c, "c-0")
		w.set(func() { w.disk = fault.New(fault.Unavailable, "full") })
		w.send(c, "c-1")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if strings.Contains(w.log.String(), "on disk again") || strings.Count(w.log.String(), "storage fails") != 1 {
			t.Errorf("logged %s", w.log)
		}
		close(release)
		end()
	})
}
