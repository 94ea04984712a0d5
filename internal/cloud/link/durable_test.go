package link_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// counted is a database that counts its transactions.
type counted struct {
	*sqlite.DB
	commits atomic.Int64
}

func (c *counted) Watch(heard func(error)) {
	c.DB.Watch(func(err error) {
		c.commits.Add(1)
		heard(err)
	})
}

// door is a station that takes every command, and permits everything.
type door struct{ called func(site.Command) }

func (door) HasLock(site.StationID, site.LockID) bool    { return true }
func (door) Permits(site.AccountID, site.StationID) bool { return true }
func (door) Lives(site.Actor) bool                       { return true }
func (door) state(site.StationID) (site.StationState, bool) {
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
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "gatehouse.db")
	key, err := api.Generate("front-desk")
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan api.Result, 10)
	var before, atDoor int64
	run := func(use func(*link.Commands, *unlock.Service, *counted)) {
		db, err := sqlite.Open(ctx, sqlite.Config{Path: path, Boot: "boot", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store := &counted{DB: db}
		db.UseClock(clock{})
		records, err := journal.New(journal.Config{Store: store, Clock: clock{}, Logger: slog.New(slog.DiscardHandler), Health: &health.Registry{}, Metrics: metric.New()})
		if err != nil {
			t.Fatal(err)
		}
		d := door{called: func(site.Command) { atDoor = store.commits.Load() - before }}
		opener, err := unlock.New(ctx, unlock.Config{Permissions: d, Directory: d, Caller: d, Journal: records, Clock: clock{}, Metrics: metric.New()})
		if err != nil {
			t.Fatal(err)
		}
		c := link.NewCommands(link.CommandConfig{
			Gateway: gatewayID, Unlocker: opener, State: d.state, Record: records.AppendLater,
			Answer: func(r api.Result) { answers <- r }, Clock: clock{}, Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(),
		})
		c.Trust(keyring(t, key.Public()))
		use(c, opener, store)
		c.Drain()
	}
	now := time.Now()
	token, err := key.Sign(api.Command{
		ID: "once", Gateway: gatewayID, Name: api.Unlock, Station: 1042, Lock: 1, Actor: "porter", IssuedAt: now, Expires: now.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	run(func(c *link.Commands, opener *unlock.Service, store *counted) {
		before = store.commits.Load()
		c.Handle(context.Background(), []byte(token), false, time.Now())
		if got := <-answers; got.Outcome != site.Done || atDoor != 1 {
			t.Errorf("of the cloud: %+v after %d transactions", got, atDoor)
		}
		if err := store.Flush(ctx); err != nil { // the outcome
			t.Fatal(err)
		}
		before = store.commits.Load()
		answer, err := opener.Unlock(ctx, unlock.Request{Actor: site.Actor{Origin: site.Admin}, Station: 1042, Lock: 1})
		if err != nil || answer.Outcome != site.Done || atDoor != 1 {
			t.Errorf("local: %+v, %v after %d transactions", answer, err, atDoor)
		}
	})
	run(func(c *link.Commands, _ *unlock.Service, _ *counted) {
		c.Handle(context.Background(), []byte(token), false, time.Now())
		if got := <-answers; got.Reason != string(api.Repeated) || got.First == nil || got.First.Outcome != site.Done {
			t.Errorf("after a restart: %+v", got)
		}
	})
}
