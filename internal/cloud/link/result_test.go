package link_test

import (
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

// signer signs commands that are refused, so that they are answered at once.
type signer struct {
	*testing.T
	api.PrivateKey
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := api.Generate("front-desk")
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, key}
}

// settings trust the signer.
func (s signer) settings() link.Settings { return link.Settings{Keys: keyring(s, s.Public())} }

// command is for a station that does not exist, and unlock for one that may.
func (s signer) command(id int) string { return s.sign(id, 999_999) }
func (s signer) unlock(id int) string  { return s.sign(id, 1042) }

func (s signer) sign(id int, station site.StationID) string {
	s.Helper()
	now := time.Now()
	token, err := s.Sign(api.Command{
		ID: fmt.Sprintf("c-%d", id), Gateway: gatewayID, Name: api.Unlock, Station: station, Lock: 1, Actor: "porter",
		IssuedAt: now, Expires: now.Add(time.Minute),
	})
	if err != nil {
		s.Fatal(err)
	}
	return token
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
		s := newSigner(t)
		p := run(t, newHouse(), s.settings())
		synctest.Wait()
		p.tell(api.CommandLeaf, s.command(1), false)
		synctest.Wait()
		if got := p.answered(); got != "c-1" {
			t.Fatalf("answered %q", got)
		}
		p.set(func() { p.mute = true })
		p.tell(api.CommandLeaf, s.command(2), false)
		synctest.Wait()
		p.tell(api.CommandLeaf, s.command(3), false)
		synctest.Wait()
		p.cut()
		p.tell(api.CommandLeaf, s.command(4), false) // heard before the connection was lost
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
		s := newSigner(t)
		p := run(t, newHouse(), s.settings(), func(p *parts) { p.mute = true })
		synctest.Wait()
		for id := range 200 {
			p.tell(api.CommandLeaf, s.command(id), false)
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

// An answer for one broker does not go to another: neither one that waits nor that of a
// command which is still carried out when the other broker is configured.
func TestLink_results_anotherBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newSigner(t), newHouse()
		h.stations[1042] = site.StationState{ID: 1042, Locks: []site.Lock{{ID: 1}}}
		h.opening = make(chan struct{})
		p := run(t, h, s.settings())
		synctest.Wait()
		p.set(func() { p.mute = true })
		p.tell(api.CommandLeaf, s.command(1), false)
		p.tell(api.CommandLeaf, s.unlock(2), false)
		synctest.Wait()
		other := s.settings()
		other.Broker, other.PerSecond, other.Window = mqttclient.Broker{URL: "tls://other.example.test"}, 1, 1
		p.set(func() { p.mute = false })
		p.Configure(other)
		<-time.After(time.Minute)
		h.opening <- struct{}{}
		synctest.Wait()
		p.tell(api.CommandLeaf, s.unlock(3), false) // by the other
		h.opening <- struct{}{}
		<-time.After(time.Minute)
		if got := p.answered(); got != "c-1 c-3" || len(p.attempts()) != 2 {
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
		s := newSigner(t)
		p := run(t, h, s.settings(), func(p *parts) { p.mute = true })
		synctest.Wait()
		p.tell(api.CommandLeaf, s.command(1), false)
		for range 3 {
			p.confirmOldest()
			synctest.Wait()
		}
		if n := len(p.on(api.StateLeaf)); p.answered() != "c-1" || n > 70 {
			t.Errorf("answered %q behind %d states", p.answered(), n)
		}
	})
}
