package link_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

func done(id string) api.Result { return api.Result{ID: id, Outcome: site.Done} }

func refusedFor(id, reason string) api.Result {
	return api.Result{ID: id, Outcome: site.Refused, Reason: reason}
}

// ids takes all answers.
func ids(r *link.Results) (all []string) {
	for _, result := range r.Take() {
		all = append(all, result.ID)
	}
	return all
}

// The newest win, but no refusal drives out an outcome.
func TestResults_full(t *testing.T) {
	r := new(link.Results)
	r.Put(done("first"))
	for n := range 1000 {
		r.Put(refusedFor(strconv.Itoa(n), "malformed"))
	}
	if got := ids(r); len(got) != 256 || got[0] != "first" || got[1] != "745" || got[255] != "999" {
		t.Errorf("%d: %v", len(got), got)
	}
	for n := range 300 {
		r.Put(done(strconv.Itoa(n)))
	}
	r.Put(refusedFor("x", "malformed"))
	if got := ids(r); len(got) != 256 || got[0] != "45" || got[255] != "x" {
		t.Errorf("%d: %v", len(got), got)
	}
	if got := ids(r); len(got) != 0 {
		t.Errorf("returned twice: %v", got)
	}
}

// unsignedCommand is refused, by its id.
func unsignedCommand(id int) string {
	b64 := base64.RawURLEncoding.EncodeToString
	return b64([]byte(`{"alg":"none"}`)) + "." + b64(fmt.Appendf(nil, `{"jti":"c-%d"}`, id)) + "."
}

// answered returns the ids of the results that the broker was sent.
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
		got := strings.Fields(p.answered())
		if slices.Sort(got); strings.Join(got, " ") != "c-1 c-2 c-2 c-3 c-3 c-4" {
			t.Errorf("answered %q", got)
		}
		p.cut()
		<-time.After(time.Minute)
		if again := p.answered(); len(strings.Fields(again)) != len(got) {
			t.Errorf("after another connection %q", again)
		}
	})
}

// A broker that acknowledges slower than commands come in is sent a bounded number of
// answers, and more as it acknowledges.
func TestLink_results_slowBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{}, func(p *parts) { p.mute = true })
		synctest.Wait()
		for id := range 200 {
			p.tell(api.CommandLeaf, unsignedCommand(id), false)
			synctest.Wait()
		}
		if n := len(strings.Fields(p.answered())); n > 64 || n < 60 {
			t.Errorf("%d answers in flight", n)
		}
		before := len(strings.Fields(p.answered()))
		for range 10 { // among them other messages
			p.confirmOldest()
			synctest.Wait()
		}
		if n := len(strings.Fields(p.answered())); n <= before || n > before+10 || len(p.attempts()) != 1 {
			t.Errorf("%d answers after ten acknowledgements, %d connections", n, len(p.attempts()))
		}
	})
}

// An answer for one broker does not go to another.
func TestLink_results_anotherBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		synctest.Wait()
		p.set(func() { p.mute = true })
		p.tell(api.CommandLeaf, unsignedCommand(1), false)
		synctest.Wait()
		p.Configure(link.Settings{Broker: mqttclient.Broker{URL: "tls://other.example.test"}, PerSecond: 1, Window: 1})
		<-time.After(time.Minute)
		if got := p.answered(); got != "c-1" || len(p.attempts()) != 2 {
			t.Errorf("answered %q on %d connections", got, len(p.attempts()))
		}
	})
}

// An answer does not wait until a broker that is slow has the states of a large site.
func TestLink_results_beforeStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		for id := range site.StationID(3000) {
			h.stations[id+1] = site.StationState{ID: id + 1}
		}
		p := run(t, h, link.Settings{}, func(p *parts) { p.mute = true })
		synctest.Wait()
		p.tell(api.CommandLeaf, unsignedCommand(1), false)
		for range 3 {
			p.confirmOldest()
			synctest.Wait()
		}
		if n := len(p.on(api.StateLeaf)); p.answered() != "c-1" || n > 70 {
			t.Errorf("answered %q behind %d states", p.answered(), n)
		}
	})
}
