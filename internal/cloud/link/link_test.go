package link_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// What the broker is told of the gateway: online, retained, with a will that says
// otherwise; and offline at the end.
func TestLink_status(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		synctest.Wait()
		cfg := p.present()
		if cfg.ClientID != string(gatewayID) || cfg.Will == nil || !cfg.Will.Retained || cfg.Will.QoS != 1 ||
			cfg.Will.Topic != "gateways/"+string(gatewayID)+"/status" || string(cfg.Will.Payload) != `{"status":"offline"}` {
			t.Errorf("dialled with %+v", cfg)
		}
		if got := fmt.Sprint(cfg.Topics); got != fmt.Sprintf("[gateways/%[1]s/command gateways/%[1]s/ack]", gatewayID) {
			t.Errorf("subscribed to %s", got)
		}
		if s := p.Status(); !s.Connected || s.Error != "" || s.URL != url {
			t.Errorf("%+v", s)
		}
		p.stop()
		all := p.on(api.StatusLeaf)
		if len(all) != 2 || !all[0].Retained || !all[1].Retained {
			t.Fatalf("%+v", all)
		}
		const online = `{"status":"online","version":"1.2.3","since":"2000-01-01T00:00:00.000Z","boot":"boot-1","journal":{"next":1}}`
		if string(all[0].Payload) != online || string(all[1].Payload) != `{"status":"offline"}` {
			t.Errorf("%s, then %s", all[0].Payload, all[1].Payload)
		}
	})
}

// The status is said again: the will of the connection before may have come after it.
func TestLink_status_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		time.Sleep(59 * time.Minute)
		all := p.on(api.StatusLeaf)
		if len(all) != 12 || all[1].at.Sub(all[0].at) != 5*time.Minute {
			t.Errorf("%+v", all)
		}
		for _, m := range all {
			if !m.Retained || !bytes.Equal(m.Payload, all[0].Payload) {
				t.Errorf("%+v", m)
			}
		}
		p.stop()
	})
}

// Attempts are spread: never under a second, never over five minutes, wider with each
// failure, and no two gateways alike.
func TestLink_backoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, all []time.Duration
		for range 50 {
			h := newHouse()
			p := start(t, h, link.Settings{})
			p.set(func() {
				p.refuse = &mqttclient.DialError{Step: mqttclient.StepConnect, Err: errors.New("refused"), Advice: "look at it"}
			})
			p.Configure(link.Settings{Broker: mqttclient.Broker{URL: url}})
			time.Sleep(2 * time.Hour)
			p.stop()
			dials := p.attempts()
			for i := range dials[1:] {
				wait := dials[i+1].Sub(dials[i])
				all = append(all, wait)
				if i == 0 {
					first = append(first, wait)
				}
			}
			c := p.health.Conditions()
			if len(c) != 1 || c[0].Code != health.CloudDown || c[0].Severity != health.Notice || c[0].Advice != "look at it" || !strings.Contains(c[0].Summary, "refused") {
				t.Fatalf("conditions %+v", c)
			}
			if n := strings.Count(p.log.String(), "cloud link down"); n != 1 {
				t.Fatalf("the log says it %d times", n)
			}
			if len(h.records) != 0 {
				t.Fatalf("records %+v", h.records)
			}
		}
		for _, wait := range all {
			if wait < time.Second || wait > 5*time.Minute {
				t.Errorf("waited %s", wait)
			}
		}
		if n := len(all); n < 50*24 || n > 50*80 {
			t.Errorf("%d attempts of 50 gateways in 2 hours", n)
		}
		var sum, squares float64
		for _, wait := range first {
			sum += wait.Seconds()
			squares += wait.Seconds() * wait.Seconds()
		}
		if deviation := math.Sqrt(squares/50 - sum*sum/2500); deviation < 0.4 {
			t.Errorf("the first attempts of 50 gateways are %.2f s apart only", deviation)
		}
	})
}

// moving is an error whose text differs each time, as that of a lost TCP connection does.
type moving struct{ port int }

func (m *moving) Error() string {
	m.port++
	return fmt.Sprintf("read tcp 192.0.2.1:%d->192.0.2.7:8883: connection reset at %s", m.port, time.Now())
}

// Days without the broker have one line in the log for each reason, and so have days in
// which it accepts each login and then hangs up.
func TestLink_down_logsOnce(t *testing.T) {
	const outage = 2 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		reset := &mqttclient.DialError{Step: mqttclient.StepLogin, Err: new(moving)}
		p := run(t, newHouse(), link.Settings{}, func(p *parts) { p.refuse = reset })
		lines := func() int { synctest.Wait(); return strings.Count(p.log.String(), "\n") }
		time.Sleep(outage)
		if n := lines(); n != 1 {
			t.Fatalf("%d lines and %d bytes of %d attempts", n, len(p.log.String()), len(p.attempts()))
		}
		for _, other := range []error{&mqttclient.DialError{Step: mqttclient.StepResolve, Err: new(moving)}, reset} {
			p.set(func() { p.refuse = other })
			time.Sleep(outage)
		}
		if n := lines(); n != 2 {
			t.Errorf("%d lines after another reason:\n%s", n, p.log)
		}
		p.set(func() { p.refuse = nil })
		time.Sleep(time.Hour)
		if n := lines(); n != 3 || !p.Status().Connected {
			t.Errorf("%d lines after the connection:\n%s", n, p.log)
		}
		p.set(func() { p.refuse = reset })
		p.end(new(moving))
		time.Sleep(outage)
		if n := lines(); n != 5 {
			t.Errorf("%d lines after a second outage:\n%s", n, p.log)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		for end := time.Now().Add(outage / 2); time.Now().Before(end); time.Sleep(10 * time.Second) {
			if synctest.Wait(); p.Status().Connected {
				p.end(new(moving))
			}
		}
		if n := strings.Count(p.log.String(), "\n"); n != 3 {
			t.Errorf("%d lines and %d bytes of %d connections:\n%.500s", n, len(p.log.String()), len(p.attempts()), p.log)
		}
	})
}

// A link that flaps backs off although each attempt succeeds, so that it fills no journal;
// each change is recorded.
func TestLink_flaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		p := run(t, h, link.Settings{})
		for range 7200 { // two hours
			synctest.Wait()
			if p.Status().Connected {
				p.cut()
			}
			time.Sleep(time.Second)
		}
		p.stop()
		if n := len(p.attempts()); n > 100 {
			t.Errorf("%d connections in 2 hours", n)
		}
		up, down := h.kinds(site.KindCloudOnline), h.kinds(site.KindCloudOffline)
		if len(up) != len(p.attempts()) || len(down) < len(up)-1 {
			t.Errorf("%d and %d records of %d connections", len(up), len(down), len(p.attempts()))
		}
		if down[0].Detail != "cut" {
			t.Errorf("the record says %q", down[0].Detail)
		}
	})
}

// Settings are taken over at once: off, on, another broker, without waiting out a
// backoff.
func TestLink_Configure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newHouse(), link.Settings{})
		time.Sleep(time.Hour)
		if len(p.attempts()) != 0 || p.Held() < math.MaxInt64 || len(p.health.Conditions()) != 0 {
			t.Errorf("%d dials without a cloud, held %d", len(p.attempts()), p.Held())
		}
		p.Configure(link.Settings{Broker: mqttclient.Broker{URL: "tcp://192.0.2.1"}, PerSecond: 1, Window: 1})
		synctest.Wait()
		if !p.Status().Connected || p.Held() != 0 {
			t.Errorf("%+v, held %d", p.Status(), p.Held())
		}
		if c := p.health.Conditions(); len(c) != 1 || c[0].Code != health.CloudPlain {
			t.Errorf("conditions %+v", c)
		}
		p.Configure(link.Settings{Broker: mqttclient.Broker{URL: url, ClientID: "other"}, PerSecond: 1, Window: 1})
		synctest.Wait()
		if !p.Status().Connected || p.present().ClientID != "other" || len(p.attempts()) != 2 || len(p.health.Conditions()) != 0 {
			t.Errorf("%+v after %d dials, conditions %+v", p.Status(), len(p.attempts()), p.health.Conditions())
		}
		p.Configure(link.Settings{
			Broker: mqttclient.Broker{URL: url, ClientID: "other"}, PerSecond: 1, Window: 1, Keys: keyring(t, newWorld(t).key.Public()),
		})
		synctest.Wait()
		if len(p.attempts()) != 2 || len(p.Status().Keys) != 1 {
			t.Errorf("%d dials for another key, %+v", len(p.attempts()), p.Status())
		}
		p.set(func() { p.refuse = errors.New("away") })
		p.cut()
		time.Sleep(time.Hour)
		n := len(p.attempts())
		p.set(func() { p.refuse = nil })
		p.Configure(link.Settings{Broker: mqttclient.Broker{URL: url}, PerSecond: 1, Window: 1})
		synctest.Wait()
		if len(p.attempts()) != n+1 || !p.Status().Connected {
			t.Error("new settings wait")
		}
		p.Configure(link.Settings{})
		synctest.Wait()
		if p.Status().Connected || p.Status().URL != "" || len(p.health.Conditions()) != 0 {
			t.Errorf("switched off, %+v, conditions %+v", p.Status(), p.health.Conditions())
		}
		if all := p.on(api.StatusLeaf); string(all[len(all)-1].Payload) != `{"status":"offline"}` {
			t.Error("switched off without a word")
		}
	})
}

// The cursor goes to disk now and then, not with each record, and at the end.
func TestLink_savesCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		p := run(t, h, link.Settings{PerSecond: 10, Window: 10}, (*parts).ackAll)
		for range 600 {
			h.add(1)
			time.Sleep(100 * time.Millisecond)
		}
		if cursor, saves := h.saved(); cursor < 400 || saves > 4 {
			t.Errorf("saved %d times in a minute, last %d", saves, cursor)
		}
		time.Sleep(time.Hour)
		if cursor, saves := h.saved(); cursor != 600 || saves > 5 {
			t.Errorf("saved %d times, last %d", saves, cursor)
		}
		h.add(1)
		time.Sleep(time.Second)
		p.stop()
		if cursor, _ := h.saved(); cursor != 601 {
			t.Errorf("at the end it kept %d", cursor)
		}
		q := run(t, h, link.Settings{PerSecond: 10, Window: 10})
		h.add(1)
		time.Sleep(time.Second)
		if got := q.seqs(api.JournalLeaf); got != "602" {
			t.Errorf("after a restart it sent %s", got)
		}
	})
}

// A connection that ends leaves the will, whatever ends it.
func TestLink_will(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		p := run(t, h, link.Settings{PerSecond: 10, Window: 10})
		synctest.Wait()
		p.set(func() { p.mute = true })
		h.add(1)
		time.Sleep(61 * time.Second)
		all := p.on(api.StatusLeaf)
		if !slices.ContainsFunc(all, func(m message) bool { return string(m.Payload) == `{"status":"offline"}` }) {
			t.Errorf("%d words; a broker that acknowledges nothing is left without the will", len(all))
		}
		p.stop()
		all = p.on(api.StatusLeaf)
		if last := all[len(all)-1]; string(last.Payload) != `{"status":"offline"}` {
			t.Errorf("the last word is %s", last.Payload)
		}
	})
}

// While other settings are tried, the link is not said to be up; the journal has its end.
func TestLink_replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		p := run(t, h, link.Settings{})
		synctest.Wait()
		p.set(func() { p.refuse = errors.New("away") })
		p.Configure(link.Settings{Broker: mqttclient.Broker{URL: "tls://other.example.test"}, PerSecond: 1, Window: 1})
		synctest.Wait()
		if s := p.Status(); s.Connected || s.URL != "tls://other.example.test" {
			t.Errorf("%+v", s)
		}
		if down := h.kinds(site.KindCloudOffline); len(down) != 1 || !strings.Contains(down[0].Detail, "settings") {
			t.Errorf("records %+v", down)
		}
	})
}
