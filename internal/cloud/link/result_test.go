package link_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/site"
)

func done(id string) api.Result { return api.Result{ID: id, Outcome: site.Done} }

func refusedFor(id, reason string) api.Result {
	return api.Result{ID: id, Outcome: site.Refused, Reason: reason}
}

// ids takes all that a session is given.
func ids(r *link.Results) string {
	var all []string
	for {
		result, _, ok := r.Next()
		if !ok {
			return strings.Join(all, " ")
		}
		all = append(all, result.ID)
	}
}

func TestResults(t *testing.T) {
	r := new(link.Results)
	if _, _, ok := r.Next(); ok {
		t.Error("there is something at the beginning")
	}
	r.Put(done("a"))
	r.Put(done("b"))
	a, delivered, ok := r.Next()
	if !ok || a != done("a") {
		t.Errorf("%+v, %t", a, ok)
	}
	delivered()
	if got := ids(r); got != "b" {
		t.Errorf("then %q", got)
	}
	if got := ids(r); got != "" {
		t.Errorf("returned twice to one session: %q", got)
	}
	r.Put(done("c"))
	r.Again()
	if got := ids(r); got != "b c" {
		t.Errorf("the next session gets %q, want what was not acknowledged and what came since", got)
	}
	delivered() // once more, late
	r.Again()
	if got := ids(r); got != "b c" {
		t.Errorf("then %q", got)
	}
}

func TestResults_age(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(link.Results)
		r.Put(done("a"))
		<-time.After(5*time.Minute - 1)
		if got := ids(r); got != "a" {
			t.Errorf("just before five minutes: %q", got)
		}
		<-time.After(1)
		r.Again()
		if got := ids(r); got != "" {
			t.Errorf("after five minutes: %q", got)
		}
		for n := range 300 {
			r.Put(done(strconv.Itoa(n)))
		}
		<-time.After(5 * time.Minute)
		r.Put(refusedFor("x", "malformed"))
		r.Put(refusedFor("y", "malformed"))
		if got := ids(r); got != "x y" {
			t.Errorf("what nobody waits for keeps its place: %q", got)
		}
	})
}

// The newest win, but no refusal drives out an outcome.
func TestResults_full(t *testing.T) {
	r := new(link.Results)
	r.Put(done("first"))
	for n := range 1000 {
		r.Put(refusedFor(strconv.Itoa(n), "malformed"))
	}
	got := strings.Fields(ids(r))
	if len(got) != 256 || got[0] != "first" || got[1] != "745" || got[255] != "999" {
		t.Errorf("%d: %v", len(got), got)
	}
	r = new(link.Results)
	for n := range 300 {
		r.Put(done(strconv.Itoa(n)))
	}
	r.Put(refusedFor("x", "malformed"))
	if got := strings.Fields(ids(r)); len(got) != 256 || got[0] != "45" || got[255] != "x" {
		t.Errorf("%d: %v", len(got), got)
	}
}

// Of equal refusals one waits, the newest.
func TestResults_equal(t *testing.T) {
	r := new(link.Results)
	r.Put(done("a"))
	r.Put(refusedFor("a", "repeated"))
	r.Put(refusedFor("b", "repeated"))
	r.Put(refusedFor("a", "repeated"))
	r.Put(done("a"))
	if got := ids(r); got != "a b a a" {
		t.Errorf("%q", got)
	}
	r.Put(refusedFor("a", "repeated")) // the one before is with the session
	if got := ids(r); got != "a" {
		t.Errorf("then %q", got)
	}
	r.Again()
	if got := ids(r); got != "a b a a" {
		t.Errorf("at last %q", got)
	}
}

// unsignedCommand is refused, by its id.
func unsignedCommand(id int) string {
	b64 := base64.RawURLEncoding.EncodeToString
	return b64([]byte(`{"alg":"none"}`)) + "." + b64(fmt.Appendf(nil, `{"jti":"c-%d"}`, id)) + "."
}

// answered gives the ids of the results that the broker was sent.
func (b *broker) answered() string {
	var all []string
	for _, m := range b.on(api.ResultLeaf) {
		var result api.Result
		if err := json.Unmarshal(m.Payload, &result); err != nil || m.QoS != 1 || m.Retained {
			return fmt.Sprintf("%s at QoS %d, retained: %t", m.Payload, m.QoS, m.Retained)
		}
		all = append(all, result.ID)
	}
	return strings.Join(all, " ")
}

// An answer whose connection has died comes again with the next, and one that the broker
// has does not.
func TestLink_results(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		synctest.Wait()
		p.tell(api.CommandLeaf, unsignedCommand(1), false)
		synctest.Wait()
		if got := p.answered(); got != "c-1" {
			t.Fatalf("answered %q", got)
		}
		p.set(func() { p.mute = true })
		p.tell(api.CommandLeaf, unsignedCommand(2), false)
		synctest.Wait()
		p.tell(api.CommandLeaf, unsignedCommand(3), false)
		synctest.Wait()
		p.cut()
		p.tell(api.CommandLeaf, unsignedCommand(4), false) // heard before the connection was lost
		p.set(func() { p.mute = false })
		<-time.After(time.Minute)
		if got := p.answered(); got != "c-1 c-2 c-3 c-2 c-3 c-4" {
			t.Errorf("answered %q", got)
		}
		p.cut()
		<-time.After(time.Minute)
		if got := p.answered(); got != "c-1 c-2 c-3 c-2 c-3 c-4" {
			t.Errorf("after another connection %q", got)
		}
	})
}

// A broker that acknowledges nothing is sent so many answers, and is left after a while.
func TestLink_results_unacknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		synctest.Wait()
		p.set(func() { p.mute = true })
		for n := range 100 {
			p.tell(api.CommandLeaf, unsignedCommand(n), false)
		}
		<-time.After(time.Minute - 1)
		if got := strings.Fields(p.answered()); len(got) != 64 || got[63] != "c-63" || len(p.attempts()) != 1 {
			t.Errorf("%d answers on %d connections", len(got), len(p.attempts()))
		}
		p.set(func() { p.mute = false })
		<-time.After(time.Minute)
		if got := strings.Fields(p.answered()); len(got) != 164 || got[64] != "c-0" || got[163] != "c-99" || len(p.attempts()) != 2 {
			t.Errorf("%d answers on %d connections", len(got), len(p.attempts()))
		}
	})
}
