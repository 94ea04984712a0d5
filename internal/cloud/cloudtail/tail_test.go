package cloudtail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/cloudtail"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// askFirst is how often an application that has just come asks a gateway to send again.
const askFirst = 3

const gatewayID = site.GatewayID("6f1c7a3e-0000-4000-8000-000000000001")

// cloud stands for the broker and every connection to it, and for the application.
type cloud struct {
	t     *testing.T
	state string // file

	mu     sync.Mutex // guards the fields below
	refuse error
	now    *line
	dials  []time.Time
	events []cloudtail.Event
	acks   []string // as published, each with what the state file said then
	fail   error    // of Handle
}

// line is one connection.
type line struct {
	cloud *cloud
	cfg   mqttclient.Config
	lost  chan struct{}
	once  sync.Once
}

func (l *line) Publish(m mqttclient.Message) *mqttclient.Delivery {
	kept, _ := os.ReadFile(l.cloud.state)
	l.cloud.mu.Lock()
	defer l.cloud.mu.Unlock()
	if m.QoS != 1 || m.Retained || m.Topic != api.Topic(gatewayID, api.AckLeaf) {
		l.cloud.t.Errorf("published %+v", m)
	}
	ack, err := api.ParseAck(m.Payload)
	if err != nil {
		l.cloud.t.Error(err)
	}
	if len(kept) > 0 && ack.Seq > 0 && !strings.Contains(string(kept), fmt.Sprintf(`"last":%d,`, ack.Seq)) {
		l.cloud.t.Errorf("%d is acknowledged while the state says %s", ack.Seq, kept)
	}
	l.cloud.acks = append(l.cloud.acks, fmt.Sprint(ack.Seq))
	return nil
}

func (l *line) Lost() <-chan struct{} { return l.lost }
func (l *line) Err() error            { return errors.New("cut") }
func (l *line) Close()                { l.cut() }
func (l *line) cut()                  { l.once.Do(func() { close(l.lost) }) }

func (c *cloud) dial(_ context.Context, cfg mqttclient.Config) (cloudtail.Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials = append(c.dials, time.Now())
	if c.refuse != nil {
		return nil, c.refuse
	}
	c.now = &line{cloud: c, cfg: cfg, lost: make(chan struct{})}
	return c.now, nil
}

func (c *cloud) handle(e cloudtail.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	return c.fail
}

// send has a message come in.
func (c *cloud) send(topic, payload string, retained bool) {
	c.mu.Lock()
	receive := c.now.cfg.Receive
	c.mu.Unlock()
	receive(mqttclient.Message{Topic: topic, Payload: []byte(payload), Retained: retained, QoS: 1})
	synctest.Wait()
}

// records has records come in, with both numbers.
func (c *cloud) records(from, to int, boot site.BootID) {
	for seq := from; seq <= to; seq++ {
		c.send(api.Topic(gatewayID, api.JournalLeaf), fmt.Sprintf(`{"seq":%d,"boot":%q,"kind":"login"}`, seq, boot), false)
	}
}

// said gives the acknowledgements since the last call.
func (c *cloud) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.Join(slices.DeleteFunc(c.acks, func(seq string) bool { return seq == "0" }), " ")
	c.acks = nil
	return text
}

// asked counts how often the gateway was asked to send again, since the last call of
// said.
func (c *cloud) asked() (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seq := range c.acks {
		if seq == "0" {
			count++
		}
	}
	return count
}

// given gives the numbers of the records since the last call, and the kinds of the
// other events.
func (c *cloud) given() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, e := range c.events {
		if e.Kind == cloudtail.Record {
			all = append(all, fmt.Sprint(e.Record.Seq))
		} else {
			all = append(all, string(e.Kind))
		}
	}
	c.events = nil
	return strings.Join(all, " ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// follow runs an application in a bubble until body returns, and gives how it ended.
func (c *cloud) follow(change func(*cloudtail.Config), body func()) error {
	cfg := cloudtail.Config{Broker: mqttclient.Config{URL: "tcp://broker.test"}, Gateway: gatewayID, Acknowledge: true, State: c.state, Handle: c.handle}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cloudtail.RunBy(ctx, cfg, c.dial) }()
	synctest.Wait()
	body()
	cancel()
	return <-ended
}

func bubble(t *testing.T, body func(t *testing.T, c *cloud)) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) { body(t, &cloud{t: t, state: state}) })
}

// What is taken is acknowledged after fifty records, or a fifth of a second, and never
// before it stands in the state file.
func TestRun_acknowledges(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		err := c.follow(nil, func() {
			c.records(1, 120, "a")
			expect(t, "at once", c.said(), "50 100")
			time.Sleep(100 * time.Millisecond)
			expect(t, "soon", c.said(), "")
			time.Sleep(150 * time.Millisecond)
			expect(t, "then", c.said(), "120")
			time.Sleep(time.Hour)
			if n := c.asked(); n != askFirst-1 {
				t.Errorf("it asks %d times more for what nobody has acknowledged", n)
			}
			expect(t, "later", c.said(), "")
			c.records(119, 120, "a")
			c.records(121, 121, "a")
		})
		expect(t, "at the end", c.said(), "121")
		if err != nil {
			t.Error(err)
		}
		if n := len(strings.Fields(c.given())); n != 122 {
			t.Errorf("%d events, want 121 records and the connection", n)
		}
	})
}

// An application goes on where it was, over losses of the connection and its own
// restarts.
func TestRun_goesOn(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		soon := func(cfg *cloudtail.Config) { cfg.Backoff = mqttclient.Backoff{Least: time.Second, Most: time.Second} }
		_ = c.follow(soon, func() {
			c.records(1, 3, "a")
			c.now.cut()
			synctest.Wait()
			expect(t, "given", c.given(), "connected 1 2 3 disconnected")
			expect(t, "before the connection was lost", c.said(), "")
			time.Sleep(5 * time.Second) // the first wait is four at most
			// What was not acknowledged over the old connection is asked for, not acknowledged.
			if c.asked() == 0 {
				t.Error("it does not ask for what it has not acknowledged")
			}
			expect(t, "after it", c.said(), "")
			c.records(2, 4, "a")
			time.Sleep(time.Second)
			expect(t, "given", c.given(), "connected 4")
			expect(t, "acknowledged", c.said(), "4")
		})
		_ = c.follow(nil, func() {
			c.records(3, 5, "a")
			time.Sleep(time.Second)
			expect(t, "after a restart", c.given(), "connected 5")
			expect(t, "acknowledged", c.said(), "5")
			c.records(5, 5, "b") // of a gateway that was restored, and has another 5
			time.Sleep(10 * time.Second)
			if n := c.asked(); n < 4 {
				t.Errorf("it asks %d times in ten seconds", n)
			}
			expect(t, "acknowledged", c.said(), "")
			for range 3 {
				c.records(5, 6, "b")
				time.Sleep(2 * time.Second)
			}
			expect(t, "of the restored gateway", c.given(), "restored 5 6")
		})
		_ = c.follow(nil, func() {
			c.records(5, 6, "b")
			time.Sleep(time.Second)
			expect(t, "after a second restart", c.given(), "connected")
		})
	})
}

// Attempts to connect are spread and grow rarer.
func TestRun_backoff(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		c.refuse = errors.New("nobody there")
		_ = c.follow(nil, func() { time.Sleep(time.Hour) })
		if len(c.dials) < 90 || len(c.dials) > 190 { // of half a minute each
			t.Errorf("%d attempts in an hour", len(c.dials))
		}
		for i := range c.dials[1:] {
			wait, bound := c.dials[i+1].Sub(c.dials[i]), min(4*time.Second<<min(i, 4), time.Minute)
			if wait < time.Second || wait > bound {
				t.Errorf("wait %d took %s, want 1s to %s", i+1, wait, bound)
			}
		}
		e := c.events[0]
		if e.Kind != cloudtail.Disconnected || !strings.Contains(e.Detail, "nobody there; next attempt in ") {
			t.Errorf("%+v", e)
		}
	})
}

// What could not be handled is not acknowledged, and given again.
func TestRun_handleFails(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		err := c.follow(nil, func() {
			c.records(1, 1, "a")
			time.Sleep(time.Second)
			c.mu.Lock()
			c.fail = errors.New("no space left")
			c.mu.Unlock()
			c.records(2, 3, "a")
			time.Sleep(time.Second)
		})
		if err == nil || err.Error() != "no space left" {
			t.Errorf("ended with %v", err)
		}
		expect(t, "acknowledged", c.said(), "1")
		c.fail = nil
		c.given()
		_ = c.follow(nil, func() {
			c.records(2, 3, "a")
			expect(t, "given", c.given(), "connected 2 3")
		})
	})
}

func TestRun_lookingOn(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		_ = c.follow(func(cfg *cloudtail.Config) { cfg.Acknowledge = false }, func() {
			c.records(7, 100, "a")
			time.Sleep(time.Minute)
			c.records(102, 102, "a")
			time.Sleep(time.Minute)
		})
		if n := c.asked(); n > 0 {
			t.Errorf("one that looks on asks %d times", n)
		}
		expect(t, "acknowledged", c.said(), "")
		if got := c.given(); !strings.HasSuffix(got, "98 99 100 waiting missing 102") {
			t.Errorf("given %s", got)
		}
	})
}

func TestRun_everyMessage(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		_ = c.follow(nil, func() {
			prefix := "gateways/" + string(gatewayID) + "/"
			for _, m := range []struct {
				leaf, payload string
				retained      bool
				want          string
			}{
				{"status", `{"status":"online","version":"1.2.3","since":"2026-11-21T08:00:00.000Z"}`, true, "status"},
				{"status", `{"status":"offline"}`, false, "status"},
				{"stations/1042/state", `{"stationId":1042,"batteryVoltage":null,"lastConnection":null,"status":"offline","locks":[]}`, true, "state"},
				{"stations/1042/state", ``, false, "removed"},
				{"live", `{"seq":9,"boot":"a","kind":"login"}`, false, "live"},
				{"result", `{"id":"x","outcome":"refused","reason":"expired","time":"2026-11-21T08:00:00.000Z"}`, false, "result"},
				{"journal", `{"seq":100,"kind":"gap","from":1,"to":100}`, false, "gap"},
				{"journal", `{"seq":101,"boot":"a","kind":"login"}`, true, "malformed"},
				{"journal", `nothing`, false, "malformed"},
				{"journal", strings.Repeat(" ", 64<<10+1), false, "malformed"},
				{"status", `[]`, false, "malformed"},
				{"live", `{}`, false, "malformed"},
				{"stations/1042/state", `{"locks":7}`, false, "malformed"},
				{"command", `x`, false, "malformed"},
				{"other", `x`, false, ""},
			} {
				c.given()
				c.send(prefix+m.leaf, m.payload, m.retained)
				expect(t, m.leaf+" "+m.payload[:min(len(m.payload), 60)], c.given(), m.want)
			}
		})
		// Every one of the kinds that carry it has the payload as it came.
		_ = c.follow(nil, func() {
			const body = `{"seq":101,"boot":"a","kind":"login","later":true}`
			c.send(api.Topic(gatewayID, api.JournalLeaf), body, false)
			if e := c.events[len(c.events)-1]; string(e.Payload) != body {
				t.Errorf("%+v", e)
			}
		})
	})
}

func TestRun_subscribes(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		_ = c.follow(func(cfg *cloudtail.Config) { cfg.Gateway = cloudtail.All }, func() {
			got := slices.Sorted(slices.Values(c.now.cfg.Topics))
			expect(t, "topics", strings.Join(got, " "), "gateways/+/journal gateways/+/live gateways/+/result gateways/+/stations/+/state gateways/+/status")
		})
	})
}

// A state file that cannot be read is a mistake, not a beginning.
func TestRun_stateFile(t *testing.T) {
	for name, text := range map[string]string{"broken": `{"gateways":{`, "another": `{}`} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := cloudtail.Run(t.Context(), cloudtail.Config{Gateway: gatewayID, State: path, Handle: func(cloudtail.Event) error { return nil }})
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
		})
	}
	bubble(t, func(t *testing.T, c *cloud) {
		c.state = filepath.Join(c.state, "in", "no", "folder")
		err := c.follow(nil, func() {
			c.records(1, 1, "a")
			time.Sleep(time.Second)
		})
		if err == nil || !strings.Contains(err.Error(), c.state) {
			t.Errorf("ended with %v", err)
		}
		expect(t, "acknowledged", c.said(), "")
	})
}

// A status that is said again is no new connection: what the gateway sent before the
// application came is not taken for had.
func TestRun_statusSaidAgain(t *testing.T) {
	bubble(t, func(t *testing.T, c *cloud) {
		_ = c.follow(nil, func() {
			status := api.Topic(gatewayID, api.StatusLeaf)
			const online = `{"status":"online","version":"1","since":"2026-11-21T08:00:00.000Z"}`
			c.records(1, 10, "a")
			time.Sleep(10 * time.Second)
			c.now.cut() // the gateway is restored with five records meanwhile, and sends 6b to 10b to nobody
			time.Sleep(10 * time.Second)
			c.said()
			c.send(status, online, true)
			c.send(status, online, false)
			c.records(11, 11, "b")
			time.Sleep(2 * time.Second)
			expect(t, "acknowledged", c.said(), "")
		})
	})
}
