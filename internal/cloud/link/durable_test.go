package link_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/board/updates"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// counted is a database that counts the records that are written, and those of them that
// the caller waits for.
type counted struct {
	*sqlite.DB
	kept, appended atomic.Int64
}

func (c *counted) Keep(ctx context.Context, r site.Record) error {
	c.kept.Add(1)
	return c.DB.Keep(ctx, r)
}

func (c *counted) AppendLater(r site.Record) {
	c.appended.Add(1)
	c.DB.AppendLater(r)
}

// writes returns what was written since the last call.
func (c *counted) writes() string {
	return fmt.Sprintf("%d waited for, %d not", c.kept.Swap(0), c.appended.Swap(0))
}

// door is a station that takes every command, and permits everything.
type door struct{ called func(site.Command) }

// standing is a clock by which no token expires, however slow the disk is.
type standing time.Time

func (s standing) Now() time.Time { return time.Time(s) }
func (standing) Trusted() bool    { return true }

// lockOne is a directory whose every station has one lock.
type lockOne struct{ allStations }

func (door) HasLock(site.StationID, site.LockID) bool                           { return true }
func (door) Releasing(site.StationID, site.LockID, site.CommandID)              {}
func (door) Unlocked(site.StationID, site.LockID, site.CommandID, site.Outcome) {}
func (door) Denial(site.AccountID, site.StationID) (d site.Denial)              { return d }
func (door) Permits(site.AccountID, site.StationID) bool                        { return true }
func (door) Lives(site.Actor) bool                                              { return true }
func (lockOne) State(site.StationID) (site.StationState, bool) {
	return site.StationState{Locks: []site.Lock{{ID: 1}}}, true
}

func (d door) Call(cmd site.Command, _ bool, departs unlock.Departure) site.Outcome {
	if !departs.MayLeave() {
		return site.Refused
	}
	departs.Left()
	d.called(cmd)
	return site.Done
}

// A signed command waits for one durable write before the door, like a local one: its
// record is also the memory of its id, over a restart too.
func TestCommands_handle_oneDurableWrite(t *testing.T) {
	clock := standing(time.Now())
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "gatehouse.db")
	key, err := api.Generate("front-desk")
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan api.Result, 10)
	const before = "1 waited for, 0 not"
	var atDoor string
	run := func(use func(link.Commands, *unlock.Service, *counted)) {
		db, err := sqlite.Open(ctx, sqlite.Config{Path: path, Boot: "boot", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store := &counted{DB: db}
		db.UseClock(clock)
		records, err := journal.New(journal.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler), Health: &health.Registry{}, Metrics: metric.New()})
		if err != nil {
			t.Fatal(err)
		}
		d := door{called: func(site.Command) { atDoor = store.writes() }}
		opener, err := unlock.New(ctx, unlock.Config{TTL: time.Hour, Permissions: d, Doors: d, Caller: d, Journal: records, Clock: clock, Metrics: metric.New()})
		if err != nil {
			t.Fatal(err)
		}
		c := link.NewCommands(link.Config{
			Gateway: gatewayID, Unlocker: opener, Stations: lockOne{}, Journal: records,
			Clock: clock, Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(),
		}, func(r api.Result) { answers <- r })
		c.Trust(keyring(t, key.Public()))
		use(c, opener, store)
		c.Drain()
	}
	now := clock.Now()
	token, err := key.Sign(api.Command{
		ID: "once", Gateway: gatewayID, Name: api.Unlock, Station: 1042, Lock: 1, Actor: "porter", IssuedAt: now, Expires: now.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	run(func(c link.Commands, opener *unlock.Service, store *counted) {
		store.writes()
		c.Handle([]byte(token), false, time.Now())
		if got := <-answers; got.Outcome != site.Done || atDoor != before {
			t.Errorf("of the cloud: %+v after %s", got, atDoor)
		}
		store.writes() // the outcome
		answer, err := opener.Unlock(ctx, unlock.Request{Actor: site.Actor{Origin: site.Admin}, Station: 1042, Lock: 1})
		if err != nil || answer.Outcome != site.Done || atDoor != before {
			t.Errorf("local: %+v, %v after %s", answer, err, atDoor)
		}
	})
	run(func(c link.Commands, _ *unlock.Service, _ *counted) {
		c.Handle([]byte(token), false, time.Now())
		if got := <-answers; got.Reason != string(api.Repeated) || got.First == nil || got.First.Outcome != site.Done {
			t.Errorf("after a restart: %+v", got)
		}
	})
}

// asking is the files between the gateway and root, and notes what was written when root
// was asked.
type asking struct {
	slot.Exchange
	asked func()
}

func (a asking) Ask(r slot.Request) error {
	a.asked()
	return a.Exchange.Ask(r)
}

// An update waits for one durable write before root is asked, and its id is remembered by
// that record, over a restart too.
func TestCommands_handle_updateDurable(t *testing.T) {
	clock := standing(time.Now())
	ctx, path, root := t.Context(), filepath.Join(t.TempDir(), "gatehouse.db"), t.TempDir()
	files := slot.Exchange{Root: root}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "run", "gatehouse"), 0o700), files.WriteStatus(site.UpdateStatus{Image: true, Default: "a", Phase: site.UpdateIdle})); err != nil {
		t.Fatal(err)
	}
	key, err := api.Generate("front-desk")
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan api.Result, 10)
	var before string
	run := func(token string, want api.Result) {
		t.Helper()
		db, err := sqlite.Open(ctx, sqlite.Config{Path: path, Boot: "boot", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store := &counted{DB: db}
		db.UseClock(clock)
		records, err := journal.New(journal.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler), Health: &health.Registry{}, Metrics: metric.New()})
		if err != nil {
			t.Fatal(err)
		}
		opener, err := unlock.New(ctx, unlock.Config{TTL: time.Hour, Permissions: door{}, Doors: door{}, Caller: door{}, Journal: records, Clock: clock, Metrics: metric.New()})
		if err != nil {
			t.Fatal(err)
		}
		store.writes()
		c := link.NewCommands(link.Config{
			Gateway: gatewayID, Unlocker: opener, Stations: lockOne{}, Journal: records, Clock: clock, Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(),
			Updates: updates.New(updates.Config{
				Exchange: asking{files, func() { before = store.writes() }}, Journal: records, Store: db, Clock: clock, Logger: slog.New(slog.DiscardHandler),
				Zone: func() *time.Location { return time.UTC },
			}),
		}, func(r api.Result) { answers <- r })
		c.Trust(keyring(t, key.Public()))
		c.AllowUpdates(true)
		c.Handle([]byte(token), false, time.Now())
		c.Drain()
		got := <-answers
		if got.Outcome != want.Outcome || got.Reason != want.Reason || (got.First == nil) != (want.First == nil) || got.First != nil && got.First.Outcome != want.First.Outcome {
			t.Errorf("answered %+v, want %+v", got, want)
		}
	}
	now := clock.Now()
	token, err := key.Sign(api.Command{
		ID: "once", Gateway: gatewayID, Name: api.Update, Actor: "porter", IssuedAt: now, Expires: now.Add(time.Minute), URL: updateURL, SHA256: updateSum,
		Window: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	run(token, api.Result{Outcome: site.Accepted})
	if before != "1 waited for, 0 not" {
		t.Errorf("root was asked after %s", before)
	}
	r, found, err := files.TakeRequest()
	if err != nil || !found || r.Action != slot.Update || r.URL != updateURL || r.SHA256 != updateSum || r.At.Before(now.Add(-time.Second)) || r.At.After(now.Add(time.Hour)) {
		t.Errorf("root is asked %+v, %v, %v", r, found, err)
	}
	run(token, api.Result{Outcome: site.Refused, Reason: string(api.Repeated), First: &api.First{Outcome: site.Accepted}})
	if r, found, err := files.TakeRequest(); err != nil || found {
		t.Errorf("root is asked again: %+v, %v", r, err)
	}
}
