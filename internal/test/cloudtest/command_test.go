package cloudtest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/cloudapp"
)

// A signed command opens its lock, once, however often it comes; and is answered.
func TestCloud_command(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		d := newDoor(t, b, 2, nil)
		d.awaitUp()
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}, Acknowledge: true})
		a.next(0, "the gateway is there", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Status && e.Status.Status == "online" })
		s := newSender(t, mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}})
		began := time.Now().Truncate(time.Millisecond)
		token := d.signer.right("c-1")
		before := a.count()
		s.command(d.id, token)
		e := a.next(before, "the answer has come", isResult("c-1", site.Done))
		if e.Result.Command == "" || e.Result.Reason != "" || e.Result.First != nil || e.Result.Time.Before(began) || e.Result.Time.After(time.Now()) {
			t.Errorf("%s", e.Payload)
		}
		before = a.count()
		for range 100 {
			s.command(d.id, token)
		}
		e = a.next(before, "a repetition is answered", isResult("c-1", site.Refused))
		if e.Result.Reason != "repeated" || e.Result.First == nil || e.Result.First.Outcome != site.Done {
			t.Errorf("%s", e.Payload)
		}
		for id := 2; ; id++ { // all before it have been handled, or nearly so
			before, jti := a.count(), fmt.Sprintf("c-%d", id)
			s.command(d.id, d.signer.right(jti))
			e = a.next(before, "the next command is answered", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Result && e.Result.ID == jti })
			if e.Result.Outcome != site.Refused || e.Result.Reason != "busy" { // else the disk of the test stalls
				break
			}
		}
		if e.Result.Outcome != site.Done {
			t.Errorf("the next command: %s", e.Payload)
		}
		if n := d.opened(1, 2); n != 2 {
			t.Errorf("two commands opened the lock %d times", n)
		}
		if n := d.opened(2, 0); n != 0 {
			t.Errorf("the other station opened %d times", n)
		}
		a.next(0, "the record has come", func(e cloudapp.Event) bool {
			return e.Kind == cloudapp.Record && e.Record.JTI == "c-1" && e.Record.Outcome == site.Done && e.Record.Origin == site.Cloud && e.Record.By == "porter@example.test"
		})
	})
}

func isResult(id string, outcome site.Outcome) func(cloudapp.Event) bool {
	return func(e cloudapp.Event) bool {
		return e.Kind == cloudapp.Result && e.Result.ID == id && e.Result.Outcome == outcome
	}
}

// Every command that is refused is answered with its reason and journalled, and opens
// nothing.
func TestCloud_refusals(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *brokertest.Broker) {
		d := newDoor(t, b, 1, nil)
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}}, Acknowledge: true})
		a.next(0, "the gateway is there", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Status && e.Status.Status == "online" })
		s := newSender(t, mqttclient.Config{Broker: mqttclient.Broker{URL: b.URL()}})
		wanted := make(map[string]bool)
		for i := range d.signer.refused() {
			test := d.signer.refused()[i] // made anew, so that none has expired
			before := a.count()
			s.command(d.id, test.token)
			e := a.next(before, "it is answered: "+test.reason, func(e cloudapp.Event) bool { return e.Kind == cloudapp.Result })
			if e.Result.Outcome != site.Refused || e.Result.Reason != test.reason || e.Result.Message == "" {
				t.Errorf("want %s: %s", test.reason, e.Payload)
			}
			wanted[test.reason] = true
		}
		for reason := range wanted {
			a.next(0, "the record has come: "+reason, func(e cloudapp.Event) bool {
				return e.Kind == cloudapp.Record && e.Record.Kind == site.KindUnlock && e.Record.Outcome == site.Refused && e.Record.Origin == site.Cloud && e.Record.Detail == reason
			})
		}
		d.retained(t, s, a)
		if n := d.opened(1, 0); n != 0 {
			t.Errorf("the lock opened %d times", n)
		}
	})
}

// retained: a command that lay at the broker opens nothing when the gateway comes.
func (d *door) retained(t *testing.T, s sender, a *application) {
	t.Helper()
	d.proxy.Refuse(true)
	d.proxy.Cut()
	d.awaitDown()
	before := a.count()
	s.publish(api.Topic(d.id, api.CommandLeaf), []byte(d.signer.right("lay-there")), true)
	d.proxy.Refuse(false)
	e := a.next(before, "a command that lay at the broker is answered", func(e cloudapp.Event) bool {
		return e.Kind == cloudapp.Result && e.Result.ID == "lay-there" // the answer before it may come again over the new connection
	})
	if e.Result.Outcome != site.Refused || e.Result.Reason != "retained" {
		t.Errorf("%s", e.Payload)
	}
}

// refusedToken is a command that is to be refused.
type refusedToken struct{ reason, token string }

// refused returns commands that are to be refused, of every kind.
func (s *signer) refused() []refusedToken {
	now := time.Now().Unix()
	stranger := &signer{key: make([]byte, 64), gateway: s.gateway}
	copy(stranger.key, s.key)
	stranger.key[0]++
	right := s.right("x")
	return []refusedToken{
		{"oversized", s.token(header(object{"x": strings.Repeat("x", 4096)}), s.claims(nil))},
		{"malformed", "not a token"},
		{"malformed", "a.b.c"},
		{"malformed", s.token(header(object{"crit": []string{"x"}, "x": 1}), s.claims(nil))},
		{"malformed", s.token(header(nil), s.claims(object{"jti": 7}))},
		{"algorithm", s.token(header(object{"alg": "none"}), s.claims(nil))},
		{"algorithm", s.token(header(object{"alg": "HS256"}), s.claims(nil))},
		{"unknown-key", s.token(header(object{"kid": "nobody"}), s.claims(nil))},
		{"bad-signature", stranger.token(header(nil), s.claims(nil))},
		{"bad-signature", right[:len(right)-8] + "AAAAAAAA"},
		{"missing-claim", s.token(header(nil), s.claims(object{"exp": nil}))},
		{"missing-claim", s.token(header(nil), s.claims(object{"actor": nil}))},
		{"wrong-audience", s.token(header(nil), s.claims(object{"aud": "another-gateway"}))},
		{"expired", s.token(header(nil), s.claims(object{"iat": now - 60, "exp": now - 1}))},
		{"not-yet-valid", s.token(header(nil), s.claims(object{"iat": now + 3600, "exp": now + 3630}))},
		{"lifetime", s.token(header(nil), s.claims(object{"iat": now, "exp": now + 61}))},
		{"unknown-command", s.token(header(nil), s.claims(object{"cmd": "lock"}))},
		{"unknown-station", s.token(header(nil), s.claims(object{"station": 77}))},
		{"unknown-lock", s.token(header(nil), s.claims(object{"lock": "lock-3"}))},
	}
}
