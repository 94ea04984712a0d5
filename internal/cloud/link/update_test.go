package link_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/updates"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	updateURL = "https://updates.example.test/gatehouse_1.3.0_arm64.update?token=secret"
	updateSum = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
)

// updateWorld is root, as far as commands see it.
type updateWorld struct {
	mu     sync.Mutex // mu guards what follows
	status site.UpdateStatus
	fails  error // of Request, which has an id unless bare
	bare   bool
	orders []updates.Order
	actors []site.Actor
}

func (u *updateWorld) Status() site.UpdateStatus {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status
}

func (u *updateWorld) Sentence() string { return "" }

func (u *updateWorld) Request(by site.Actor, o updates.Order) (site.CommandID, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.fails != nil && u.bare:
		return "", u.fails
	case u.fails != nil:
		return "request-of-" + site.CommandID(o.JTI), u.fails
	case !o.Permitted():
		return "request-of-" + site.CommandID(o.JTI), fault.New(fault.Forbidden, "No longer")
	}
	u.orders, u.actors = append(u.orders, o), append(u.actors, by)
	return "request-of-" + site.CommandID(o.JTI), nil
}

// Once is that of package unlock, in short.
func (w *world) Once(id string, carry func() (unlock.Answer, bool, error)) (unlock.Answer, error) {
	if w.onOnce != nil {
		w.onOnce()
	}
	answer, done, err := carry()
	w.set(func() {
		if answer.Ended, answer.Replayed = time.Now(), true; done {
			w.claimed[id] = answer
		} else {
			delete(w.claimed, id)
		}
	})
	return answer, err
}

// update is a command that holds for half a minute.
func (w *world) updateOf(id string) api.Command {
	cmd := w.good(id)
	cmd.Name, cmd.Station, cmd.Lock, cmd.URL, cmd.SHA256 = api.Update, 0, 0, updateURL, updateSum
	return cmd
}

// sendUpdate has a new update handled.
func (w *world) sendUpdate(c link.Commands, id string) {
	w.t.Helper()
	c.Handle(w.sign(w.updateOf(id)), false, time.Now())
	synctest.Wait()
}

// wantLast requires the newest answer, as "OUTCOME REASON".
func (w *world) wantLast(outcome site.Outcome, reason api.Reason, says string) {
	w.t.Helper()
	last := w.last()
	if last.Outcome != outcome || last.Reason != string(reason) || !strings.Contains(last.Message, says) {
		w.t.Errorf("the answer is %+v, want %s %s %q", last, outcome, reason, says)
	}
}

// updating returns commands of a gateway that takes updates and was started from an image.
func (w *world) updating() link.Commands {
	w.update.status.Image = true
	c := w.commands()
	c.AllowUpdates(true)
	return c
}

func TestCommands_handle_update(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.updating()
		w.sendUpdate(c, "u-1")
		w.wantLast(site.Accepted, "", "")
		if last := w.last(); last.ID != "u-1" || last.Command != "request-of-u-1" {
			t.Errorf("the answer is %+v", last)
		}
		o := w.update.orders[0]
		if o.URL != updateURL || o.SHA256 != updateSum || o.File || !o.At.IsZero() || o.JTI != "u-1" {
			t.Errorf("the order is %+v", o)
		}
		if by := w.update.actors[0]; by != (site.Actor{Origin: site.Cloud, Name: "porter@example.test", KeyID: "front-desk"}) {
			t.Errorf("the actor is %+v", by)
		}
		w.sendUpdate(c, "u-1")
		w.wantLast(site.Refused, api.Repeated, "")
		if first := w.last().First; first == nil || first.Outcome != site.Accepted || len(w.update.orders) != 1 || len(w.records) != 1 {
			t.Errorf("the first was %+v; %d orders, %v", first, len(w.update.orders), w.records)
		}
		if r := w.records[0]; r.Kind != site.KindUpdate || r.Outcome != site.Refused || r.Detail != "repeated" || r.JTI != "u-1" || r.KeyID != "front-desk" || r.Origin != site.Cloud {
			t.Errorf("the record is %+v", r)
		}
		if strings.Contains(w.log.String(), "secret") {
			t.Errorf("logged %s", w.log)
		}
	})
}

// In a window the gateway restarts at a moment of its own; one that has passed is now, and
// none after the window.
func TestCommands_handle_updateWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.updating()
		cmd := w.updateOf("u-1")
		cmd.Window = 4 * time.Hour
		cmd.IssuedAt = cmd.IssuedAt.Truncate(time.Second)
		c.Handle(w.sign(cmd), false, time.Now())
		synctest.Wait()
		if at := w.update.orders[0].At; !at.Equal(cmd.Moment()) || at.IsZero() {
			t.Errorf("at %s, want %s", at, cmd.Moment())
		}
		if until := w.update.orders[0].Until; !until.Equal(cmd.IssuedAt.Add(4 * time.Hour)) {
			t.Errorf("until %s", until)
		}
		for i := 0; ; i++ { // one whose moment is within its first seconds
			cmd = w.updateOf(fmt.Sprint("early-", i))
			cmd.Window = time.Minute
			if cmd.Moment().Before(time.Now().Add(2 * time.Second)) {
				break
			}
		}
		early := w.sign(cmd)
		<-time.After(5 * time.Second)
		c.Handle(early, false, time.Now())
		synctest.Wait()
		if o := w.update.orders[1]; !o.At.Equal(time.Now()) || !o.Until.Equal(cmd.IssuedAt.Add(time.Minute)) {
			t.Errorf("at %s, until %s", o.At, o.Until)
		}
		cmd = w.updateOf("u-2")
		cmd.Window = time.Second
		token := w.sign(cmd)
		<-time.After(2 * time.Second)
		c.Handle(token, false, time.Now())
		synctest.Wait()
		if o := w.update.orders[2]; !o.At.IsZero() || !o.Until.IsZero() {
			t.Errorf("at %s, which has passed, until %s", o.At, o.Until)
		}
	})
}

// Nothing is claimed for what is refused before.
func TestCommands_handle_updateRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*world, link.Commands)
		reason api.Reason
		says   string
	}{
		"off":          {func(_ *world, c link.Commands) { c.AllowUpdates(false) }, api.UpdatesOff, "from_cloud in [update]"},
		"clock":        {func(w *world, _ link.Commands) { w.unsure = true }, api.Clock, "clock"},
		"not an image": {func(w *world, _ link.Commands) { w.update.status = site.UpdateStatus{Advice: "By its package."} }, api.NotImage, "By its package"},
		"full":         {func(w *world, _ link.Commands) { w.full = true }, api.Busy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				cmds := w.updating()
				c.set(w, cmds)
				w.sendUpdate(cmds, "u-1")
				w.wantLast(site.Refused, c.reason, c.says)
				if len(w.update.orders) > 0 || len(w.claimed) > 0 || len(w.records) != 1 || w.records[0].Kind != site.KindUpdate || w.counted(string(c.reason)) != "1" {
					t.Errorf("orders %v, claimed %v, records %+v", w.update.orders, w.claimed, w.records)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.updating()
		c.Handle(w.sign(w.updateOf("u-1")), true, time.Now())
		synctest.Wait()
		w.wantLast(site.Refused, api.Retained, "")
		// Signed by a trusted key, but no update that can be: the record says what it was.
		cmd := w.updateOf("u-2")
		cmd.Gateway = "another"
		c.Handle(w.sign(cmd), false, time.Now())
		synctest.Wait()
		w.wantLast(site.Refused, api.WrongAudience, "")
		synctest.Wait() // until its record is written
		records := w.recorded()
		if last := records[len(records)-1]; last.Kind != site.KindUpdate || last.JTI != "u-2" {
			t.Errorf("the record is %+v", last)
		}
	})
}

func conflict(sentence string) error { return fault.New(fault.Conflict, sentence) }

// What goes wrong after the id is claimed is answered; where nothing was done the id is free.
func TestCommands_handle_updateFails(t *testing.T) {
	for name, c := range map[string]struct {
		set     func(*world, link.Commands)
		outcome site.Outcome
		reason  api.Reason
		records int
		free    bool
	}{
		"storage": {func(w *world, _ link.Commands) {
			w.update.fails, w.update.bare = fault.New(fault.Unavailable, "Full"), true
		}, site.Refused, api.Busy, 0, true},
		"in progress": {func(w *world, _ link.Commands) { w.update.fails, w.update.bare = conflict("In progress"), true }, site.Refused, api.Busy, 1, true},
		"root":        {func(w *world, _ link.Commands) { w.update.fails = fault.New(fault.Unavailable, "No folder") }, site.Failed, "", 0, false},
		"key": {func(w *world, c link.Commands) {
			w.onOnce = func() { c.Trust(api.Keyring{}) }
		}, site.Refused, api.NotPermitted, 0, false},
		"switched off": {func(w *world, c link.Commands) {
			w.onOnce = func() { c.AllowUpdates(false) }
		}, site.Refused, api.NotPermitted, 0, false},
		"panic": {func(w *world, _ link.Commands) { w.onOnce = func() { panic("no") } }, site.Unresolved, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				cmds := w.updating()
				c.set(w, cmds)
				w.sendUpdate(cmds, "u-1")
				w.wantLast(c.outcome, c.reason, "")
				_, claimed := w.claimed["u-1"]
				if len(w.update.orders) > 0 || len(w.records) != c.records || claimed == c.free {
					t.Errorf("orders %v, records %+v, claimed %v", w.update.orders, w.records, w.claimed)
				}
			})
		})
	}
}

// A flood of updates asks root for few, writes few records, and takes no room from unlocks.
func TestCommands_handle_updateFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.updating()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
		for i := range 1000 {
			w.sendUpdate(c, fmt.Sprint("u-", i))
		}
		w.wantLast(site.Refused, api.Busy, "")
		if n := len(w.update.orders); n != link.MaxUpdatesAtOnce || len(w.recorded()) > 10 {
			t.Errorf("%d orders, %d records", n, len(w.recorded()))
		}
		w.send(c, "c-1")
		w.wantLast(site.Done, "", "")
		w.sendTo(c, 7, "c-2") // a refused unlock has a record of its own all the same
		synctest.Wait()       // until its record is written
		records := w.recorded()
		if last := records[len(records)-1]; last.Kind != site.KindUnlock || last.JTI != "c-2" {
			t.Errorf("the record is %+v", last)
		}
		<-time.After(link.UpdateEvery)
		w.sendUpdate(c, "u-later")
		w.wantLast(site.Accepted, "", "")
		cancel()
		<-ended
		if n := len(w.recorded()); n > 20 {
			t.Errorf("%d records", n)
		}
	})
}

// The status has how updates stand, and is published again when that changes: soon, and not
// often.
func TestLink_Run_updateStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.updates = site.UpdateStatus{Advice: "By its package."}
		p := run(t, h, link.Settings{})
		synctest.Wait()
		statuses := func() (texts []string) {
			for _, m := range p.broker.on(api.StatusLeaf) {
				texts = append(texts, string(m.Payload))
			}
			return texts
		}
		if got := statuses(); len(got) != 1 || !strings.Contains(got[0], `"update":{"image":false,"advice":"By its package."}`) {
			t.Errorf("%q", got)
		}
		<-time.After(time.Minute)
		if got := statuses(); len(got) != 1 {
			t.Errorf("unchanged, it is published %d times", len(got))
		}
		for percent := range 60 { // a minute
			h.set(func() {
				h.updates = site.UpdateStatus{Image: true, Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Phase: site.UpdateWriting, Percent: percent}
			})
			<-time.After(time.Second)
		}
		<-time.After(10 * time.Second)
		got := statuses()
		if last := got[len(got)-1]; len(got) < 10 || len(got) > 15 || !strings.Contains(last, `"percent":59`) || !strings.Contains(last, `"text":"Version 1.2.3 runs."`) {
			t.Errorf("published %d times, the last is %s", len(got), last)
		}
	})
}
