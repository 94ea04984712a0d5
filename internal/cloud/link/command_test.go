package link_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// inBubble runs a test with a world in a bubble of testing/synctest.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

func TestCommands_handle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		received := time.Now().Add(-time.Second)
		cmd := w.good("c-1")
		c.Handle(w.sign(cmd), false, received)
		synctest.Wait()
		if want := []string{"claim c-1", "unlock c-1"}; !slices.Equal(w.events, want) {
			t.Errorf("in this order: %v, want %v", w.events, want)
		}
		req := w.opened[0]
		if req.Actor != (site.Actor{Origin: site.Cloud, Name: "porter@example.test", KeyID: "front-desk"}) || req.Station != 1042 || req.Lock != 2 || !req.WaitResult ||
			req.Accepted != received || !req.Until.Equal(cmd.Expires) || req.JTI != "c-1" || req.IdempotencyKey != "" {
			t.Errorf("asked for %+v", req)
		}
		want := api.Result{ID: "c-1", Outcome: site.Done, Time: site.At(w.Now()), Command: "command-of-c-1"}
		if len(w.results) != 1 || w.last() != want {
			t.Errorf("answered %+v, want %+v", w.results, want)
		}
		if len(w.records) != 0 {
			t.Errorf("recorded %+v besides the records of the unlock", w.records)
		}
	})
}

// Whatever becomes of it, the outcome is answered.
func TestCommands_handle_outcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		for _, outcome := range []site.Outcome{site.Done, site.Acknowledged, site.Refused, site.Failed, site.StationGone, site.Expired} {
			w.outcome = outcome
			w.send(c, string(outcome))
			if got := w.last(); got.Outcome != outcome || got.ID != string(outcome) || got.Reason != "" {
				t.Errorf("%s is answered as %+v", outcome, got)
			}
		}
	})
}

// Everything that is refused is answered, recorded and counted with its reason, and
// opens nothing.
func TestCommands_handle_refuses(t *testing.T) {
	other, err := api.Generate("front-desk")
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := api.Generate("back-door")
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	part := func(token []byte, n int) string { return strings.Split(string(token), ".")[n] }
	sign := func(k api.PrivateKey, c api.Command) []byte {
		token, err := k.Sign(c)
		if err != nil {
			t.Fatal(err)
		}
		return []byte(token)
	}
	for reason, payload := range map[string]func(w *world, c api.Command) []byte{
		"expired": func(w *world, c api.Command) []byte {
			c.IssuedAt, c.Expires = c.IssuedAt.Add(-time.Minute), c.Expires.Add(-time.Minute)
			return w.sign(c)
		},
		"not-yet-valid": func(w *world, c api.Command) []byte {
			c.IssuedAt, c.Expires = c.IssuedAt.Add(time.Minute), c.Expires.Add(time.Minute)
			return w.sign(c)
		},
		"wrong-audience": func(w *world, c api.Command) []byte { c.Gateway = "another"; return w.sign(c) },
		"bad-signature":  func(_ *world, c api.Command) []byte { return sign(other, c) },
		"unknown-key":    func(_ *world, c api.Command) []byte { return sign(unknown, c) },
		"algorithm": func(w *world, c api.Command) []byte {
			return []byte(b64([]byte(`{"alg":"none","kid":"front-desk"}`)) + "." + part(w.sign(c), 1) + ".")
		},
		"oversized":       func(w *world, c api.Command) []byte { return append(w.sign(c), make([]byte, 4096)...) },
		"malformed":       func(*world, api.Command) []byte { return []byte(`{"cmd":"unlock"}`) },
		"unknown-station": func(w *world, c api.Command) []byte { c.Station = 7; return w.sign(c) },
		"unknown-lock":    func(w *world, c api.Command) []byte { c.Lock = 3; return w.sign(c) },
		"unknown-command": func(w *world, c api.Command) []byte { c.Name = "test"; return w.sign(c) },
		"retained":        func(w *world, c api.Command) []byte { return w.sign(c) },
	} {
		inBubble(t, func(t *testing.T, w *world) {
			w.commands().Handle(payload(w, w.good("c-1")), reason == "retained", time.Now())
			synctest.Wait()
			if len(w.opened) > 0 || len(w.claimed) > 0 {
				t.Errorf("%s: opened %+v, claimed %+v", reason, w.opened, w.claimed)
			}
			id := "c-1"
			switch reason { // not signed by a trusted key: an id of somebody else's choice
			case "malformed", "oversized", "algorithm", "unknown-key", "bad-signature":
				id = ""
			}
			got := w.last()
			if got.ID != id || got.Outcome != site.Refused || got.Reason != reason || got.Message == "" || !got.Time.Equal(site.At(w.Now()).Time) || len(w.results) != 1 {
				t.Errorf("%s: answered %+v", reason, w.results)
			}
			if len(w.records) != 1 {
				t.Fatalf("%s: recorded %+v", reason, w.records)
			}
			r := w.records[0]
			if r.Kind != site.KindUnlock || r.Origin != site.Cloud || r.Outcome != site.Refused || r.Detail != reason || r.JTI != id || r.Count != 0 {
				t.Errorf("%s: recorded %+v", reason, r)
			}
			if n := w.counted(reason); n != "1" {
				t.Errorf("%s: counted %s times", reason, n)
			}
			if !strings.Contains(w.log.String(), "reason="+reason) {
				t.Errorf("%s: logged %s", reason, w.log)
			}
		})
	}
}

// Of a signer who is trusted, the record names who asked and for which lock; of nobody
// else anything that he claims.
func TestCommands_handle_recordsOfRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		cmd := w.good("c-1")
		cmd.Station = 7
		c.Handle(w.sign(cmd), false, time.Now())
		synctest.Wait()
		if r := w.records[0]; r.Doer() != "porter@example.test (signed by front-desk)" || r.Station != 7 || r.Lock != "lock-2" {
			t.Errorf("signed: %+v", r)
		}
		c.Trust(api.Keyring{})
		c.Handle(w.sign(cmd), false, time.Now())
		synctest.Wait()
		if r := w.records[1]; r.Doer() != "" || r.Station != 0 || r.Lock != "" {
			t.Errorf("not signed: %+v", r)
		}
	})
}

func TestCommands_handle_repeated(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.send(c, "c-1")
		ended := w.Now()
		<-time.After(3 * time.Second)
		w.send(c, "c-1") // signed anew
		got := w.last()
		if got.ID != "c-1" || got.Outcome != site.Refused || got.Reason != "repeated" || got.First == nil || *got.First != (api.First{Outcome: site.Done, Time: site.At(ended)}) {
			t.Errorf("answered %+v, first %+v", got, got.First)
		}
		if len(w.opened) != 1 || w.counted("repeated") != "1" || len(w.records) != 1 || w.records[0].Detail != "repeated" || w.records[0].Station != 1042 {
			t.Errorf("%d opened, counted %s, recorded %+v", len(w.opened), w.counted("repeated"), w.records)
		}
	})
}

// Ten thousand copies at once open once, and the others are told how it stands.
func TestCommands_handle_copies(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		hold := make(chan struct{})
		w.onUnlock = func(unlock.Request) { <-hold }
		token := w.sign(w.good("c-1"))
		var copies sync.WaitGroup
		for range 10_000 {
			copies.Go(func() { c.Handle(token, false, time.Now()) })
		}
		synctest.Wait()
		if w.unlocks() != 1 || len(w.results) != 9_999 || w.last().First.Outcome != site.Requested || !w.last().First.Time.IsZero() {
			t.Errorf("%d unlocks, %d answers, the last %+v", w.unlocks(), len(w.results), w.last())
		}
		copies.Wait()
		close(hold)
		synctest.Wait()
		if w.unlocks() != 1 || w.last().Outcome != site.Done {
			t.Errorf("%d unlocks, the last answer %+v", w.unlocks(), w.last())
		}
	})
}

// A station that does not answer holds nothing up: the message is done with when its id
// is taken. What is on its way is bounded; what is beyond is refused and may come again.
func TestCommands_handle_silentStation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		hold := make(chan struct{})
		w.onUnlock = func(unlock.Request) { <-hold }
		for n := range link.MaxUnderWay {
			w.send(c, fmt.Sprint(n))
		}
		if w.unlocks() != link.MaxUnderWay || len(w.results) != 0 {
			t.Fatalf("%d unlocks, answered %+v", w.unlocks(), w.results)
		}
		w.sendTo(c, 9999, "one more")
		if _, claimed := w.claimed["one more"]; w.last().Reason != "busy" || claimed || w.unlocks() != link.MaxUnderWay {
			t.Errorf("answered %+v, claimed: %t", w.last(), claimed)
		}
		close(hold)
		synctest.Wait()
		w.send(c, "one more")
		if w.last().Outcome != site.Done || len(w.results) != link.MaxUnderWay+2 {
			t.Errorf("answered %+v, %d answers", w.last(), len(w.results))
		}
	})
}

// The end waits for a command that is being carried out.
func TestCommands_drain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.onUnlock = func(unlock.Request) { <-time.After(time.Second) }
		w.send(c, "c-1")
		c.Drain()
		if w.last().Outcome != site.Done {
			t.Errorf("answered %+v", w.last())
		}
	})
}

// A mistake in carrying one command out ends neither the process nor another command.
func TestCommands_handle_breaksDown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.onUnlock = func(unlock.Request) { panic("a mistake") }
		w.send(c, "c-1")
		if w.last().Outcome != site.Unresolved || !strings.Contains(w.log.String(), "a mistake") {
			t.Errorf("answered %+v, logged %s", w.last(), w.log)
		}
		w.onUnlock = nil
		w.send(c, "c-2")
		if w.last().Outcome != site.Done {
			t.Errorf("answered %+v", w.last())
		}
	})
}

// Nobody is trusted until somebody is named.
func TestNewCommands_trustsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send(link.NewCommands(w.config(), w.answer), "c-1")
		if w.last().Reason != "unknown-key" || w.unlocks() != 0 {
			t.Errorf("answered %+v", w.last())
		}
	})
}

// The removal of a key takes effect between the look at the signature and the command's
// leaving, too, and so does another key in its place.
func TestCommands_trust(t *testing.T) {
	for name, change := range map[string]func(w *world) api.Keyring{
		"removed": func(*world) api.Keyring { return api.Keyring{} },
		"replaced": func(w *world) api.Keyring {
			return keyring(w.t, newWorld(w.t).key.Public())
		},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			c := w.commands()
			w.onUnlock = func(unlock.Request) { c.Trust(change(w)) }
			w.send(c, "c-1")
			got := w.last()
			if got.Outcome != site.Refused || got.Reason != "not-permitted" || got.Command != "command-of-c-1" || w.counted("not-permitted") != "1" {
				t.Errorf("%s: answered %+v, counted %s", name, got, w.counted("not-permitted"))
			}
			if len(w.records) != 0 {
				t.Errorf("%s: recorded %+v", name, w.records)
			}
		})
	}
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		other := newWorld(t).key.Public()
		other.ID = "night"
		w.onUnlock = func(unlock.Request) { c.Trust(keyring(t, other, w.key.Public())) }
		w.send(c, "c-1")
		if w.last().Outcome != site.Done {
			t.Errorf("another key came beside it: %+v", w.last())
		}
	})
}

// A lock that was there when the command came and is not any more.
func TestCommands_handle_removedOnTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.unlocker = fault.New(fault.NotFound, "Station not found")
		w.send(w.commands(), "c-1")
		if got := w.last(); got.Outcome != site.Refused || got.Reason != "not-permitted" || got.ID != "c-1" {
			t.Errorf("answered %+v", got)
		}
		if len(w.records) != 1 || w.records[0].Detail != "not-permitted" || w.records[0].JTI != "c-1" || w.records[0].Station != 1042 || w.records[0].Lock != "lock-2" {
			t.Errorf("recorded %+v", w.records)
		}
	})
}

// A client that may publish fills neither the journal nor the log.
func TestCommands_refuse_boundedRate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		c := w.commands()
		ended := make(chan struct{})
		go func() {
			c.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		for range 100 {
			c.Handle([]byte("rubbish"), false, time.Now())
		}
		if len(w.recorded()) != 1 || len(w.results) != 100 || w.counted("malformed") != "100" || strings.Count(w.log.String(), "refused") != 1 {
			t.Errorf("of 100: %d records, %d answers, counted %s, %s", len(w.recorded()), len(w.results), w.counted("malformed"), w.log)
		}
		<-time.After(time.Minute + 1)
		synctest.Wait()
		if all := w.recorded(); len(all) != 2 || all[1].Count != 99 || all[1].Detail != "malformed" || all[1].Origin != site.Cloud {
			t.Errorf("after a minute: %+v", all)
		}
		c.Handle([]byte("rubbish"), false, time.Now())
		cancel()
		<-ended
		if n := len(w.recorded()); n != 3 {
			t.Errorf("in the end: %d records", n)
		}
	})
}

// What a trusted key has signed is recorded whatever nobody's rubbish does, and copies of it
// fill no journal either.
func TestCommands_refuse_signedIsRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		for range 1000 {
			c.Handle([]byte("rubbish"), false, time.Now())
		}
		w.send(c, "c-1")
		before := len(w.records)
		token := w.sign(w.good("c-1"))
		for range 1000 {
			c.Handle(token, false, time.Now()) // repeated
		}
		c.Handle(token, true, time.Now()) // retained
		c.Handle(w.sign(w.good("c-2")), true, time.Now())
		<-time.After(time.Minute)
		c.Handle(token, false, time.Now()) // expired
		got := make(map[string]int)
		for _, r := range w.records[before:] {
			got[r.JTI+" "+r.Detail]++
		}
		if got["c-1 repeated"] < 1 || got["c-1 repeated"] > 10 || got["c-1 retained"] != 1 || got["c-2 retained"] != 1 || got["c-1 expired"] != 1 {
			t.Errorf("recorded %v", got)
		}
		for n := range 1000 { // an attacker with the tokens of years
			cmd := w.good(fmt.Sprint("old-", n))
			cmd.IssuedAt, cmd.Expires = cmd.IssuedAt.Add(-time.Hour), cmd.Expires.Add(-time.Hour)
			c.Handle(w.sign(cmd), false, time.Now())
		}
		if n := len(w.records) - before; n > 100 {
			t.Errorf("%d records in a minute", n)
		}
	})
}

// Many commands at once, with their copies, with keys that come and go: each opens once
// at most.
func TestCommands_handle_overlap(t *testing.T) {
	w := newWorld(t)
	c := w.commands()
	trusted := keyring(t, w.key.Public())
	var all sync.WaitGroup
	for n := range 32 {
		token := w.sign(w.good(fmt.Sprint(n)))
		for range 8 {
			all.Go(func() { c.Handle(token, false, time.Now()) })
		}
		all.Go(func() { c.Trust(api.Keyring{}); c.Trust(trusted) })
	}
	all.Wait()
	c.Drain()
	seen := make(map[string]bool)
	for _, req := range w.opened {
		if seen[req.JTI] {
			t.Errorf("%s was carried out twice", req.JTI)
		}
		seen[req.JTI] = true
	}
	if len(w.results) != 32*8 {
		t.Errorf("%d answers", len(w.results))
	}
}

// By a clock that is not trusted nothing that a trusted key has signed is carried out; what
// nobody has signed is refused as ever.
func TestCommands_handle_clock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.unsure = true
		stale, probe, foreign := w.good("c-2"), w.good("c-3"), w.good("c-4")
		stale.IssuedAt, stale.Expires = stale.IssuedAt.Add(-time.Hour), stale.Expires.Add(-time.Hour)
		probe.Name, foreign.Gateway = "test", "another"
		for _, cmd := range []api.Command{w.good("c-1"), stale, probe} {
			c.Handle(w.sign(cmd), false, time.Now())
			if got := w.last(); got.Reason != "clock" || got.ID != cmd.ID || !strings.Contains(got.Message, "gatehouse clock accept") || len(w.claimed) != 0 {
				t.Errorf("%s: %+v", cmd.ID, got)
			}
		}
		c.Handle(w.sign(foreign), false, time.Now())
		if w.last().Reason != "wrong-audience" {
			t.Errorf("%+v", w.last())
		}
		c.Handle([]byte("x"), false, time.Now())
		if w.last().Reason != "malformed" {
			t.Errorf("%+v", w.last())
		}
		w.unsure = false
		w.send(c, "c-1") // it was not carried out
		if w.last().Outcome != site.Done {
			t.Errorf("with a trusted clock: %+v", w.last())
		}
	})
}

// What cannot be claimed, or recorded, is refused and may come again.
func TestCommands_handle_busy(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		w.full = true
		w.send(c, "c-1")
		if got := w.last(); got.Reason != "busy" || !strings.HasPrefix(got.Message, "Too many; ") || len(w.records) != 1 || w.records[0].Detail != "busy" {
			t.Errorf("nothing can be claimed: %+v, recorded %+v", got, w.records)
		}
		w.full, w.unlocker = false, fault.New(fault.Unavailable, "The storage takes no writes")
		w.send(c, "c-2")
		if got := w.last(); got.Outcome != site.Refused || got.Reason != "busy" || !strings.HasPrefix(got.Message, "The storage") || w.counted("busy") != "2" || len(w.records) != 2 {
			t.Errorf("nothing can be recorded: %+v, counted %s, recorded %+v", got, w.counted("busy"), w.records)
		}
	})
}

// A process that was killed while a command was under way answers at its next start that
// its end is unknown.
func TestNewCommands_afterAKill(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.interrupted = []string{"c-1"}
		w.commands()
		if got := w.last(); got.ID != "c-1" || got.Outcome != site.Unresolved || !got.Time.Equal(site.At(w.Now()).Time) || len(w.results) != 1 {
			t.Errorf("answered %+v", w.results)
		}
	})
}
