package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// cloudFollowing holds the flags of cloud tail.
type cloudFollowing struct {
	brokerLogin
	url     string
	ca      string
	gateway string
	noAck   bool
}

const cloudTailLong = `Do what an application in the cloud does: subscribe to what gateways publish, print
each message with its topic, and acknowledge the records of the journal. Records are
printed in order; after a restart a gateway may send its last ones again. Ends with
Ctrl-C.

A gateway counts every record that is acknowledged as delivered, and never sends it
again. Where an application takes the records already, use --no-ack.

Without --url the broker is that of [cloud] in this gateway's configuration. Its login
is the gateway's own, which should have no right to all this: set the application's
with --username and --password-file, or by GATEHOUSE_CLOUD_CERTIFICATE and
GATEHOUSE_CLOUD_KEY.`

const cloudTailExample = `  gatehouse cloud tail --no-ack
  gatehouse cloud tail --url tls://mqtt.example.test:8883 --username app --password-file app.password
  gatehouse cloud tail --gateway 6f1c7a3e-3f5b-4d0c-9a55-0d8c5a1f2b3c --json >> messages.json`

func (a *app) cloudTailCommand() *cobra.Command {
	var flags cloudFollowing
	cmd := &cobra.Command{
		Use:     "tail",
		Short:   "Print what gateways publish, as an application sees it",
		Long:    cloudTailLong,
		Example: cloudTailExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if _, err := mqttclient.ParseURL(flags.url); flags.url != "" && err != nil {
				return fmt.Errorf("--url: %w", err)
			}
			if err := flags.check(); err != nil {
				return err
			}
			return takes()(cmd, args)
		},
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.cloudTail(ctx, flags) }),
	}
	f := cmd.Flags()
	f.StringVar(&flags.url, "url", "", "connect to the broker at `URL`, tls://host:8883 or tcp://host:1883")
	flags.add(f)
	f.StringVar(&flags.ca, "ca", "", "trust the certificates of this PEM `FILE` (default the system's)")
	f.StringVar(&flags.gateway, "gateway", "", "only the gateway with the `ID` (default all that the login may see)")
	f.BoolVar(&flags.noAck, "no-ack", false, "acknowledge nothing")
	return cmd
}

func (a *app) cloudTail(ctx context.Context, flags cloudFollowing) (err error) {
	gateway := site.GatewayID("+")
	if flags.gateway != "" {
		if gateway, err = a.gatewayID(ctx, flags.gateway); err != nil {
			return err
		}
	}
	t := &tail{app: a, acknowledges: !flags.noAck, places: make(map[site.GatewayID]*place)}
	if t.broker, err = a.tailBroker(flags); err != nil {
		return err
	}
	t.broker.Topics, t.broker.Receive = api.Filters(gateway), t.receive
	t.broker.PerSecond, t.broker.Burst, t.broker.MaxPayload = tailPerSecond, tailPerSecond, tailMaxPayload
	ctx, t.end = context.WithCancelCause(ctx)
	defer t.end(nil)
	mqttclient.Backoff{}.Retry(ctx, t.follow, func(err error, wait time.Duration) {
		a.complain(fmt.Sprintf("the connection to the broker is lost: %v; next attempt in %s", err, wait.Round(time.Second)))
	})
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

const (
	tailKeepalive  = 30 * time.Second
	tailPerSecond  = 100_000 // messages; the gateways' windows bound them
	tailMaxPayload = 64 << 10
	// ackEvery is how often records are acknowledged, and askEvery how often a gateway is
	// asked to send again what is missing.
	ackEvery = 200 * time.Millisecond
	askEvery = 2 * time.Second
	// maxAhead bounds the records that wait for one before them: twice the widest window
	// of a gateway (cloud.window).
	maxAhead = 2000
)

// tailBroker returns which broker to connect to, and as whom.
func (a *app) tailBroker(flags cloudFollowing) (mqttclient.Config, error) {
	broker := mqttclient.Config{URL: flags.url, KeepAlive: tailKeepalive}
	if flags.url == "" {
		cfg, err := a.settings()
		if err != nil {
			return broker, err
		}
		if cfg.Cloud.URL == "" {
			return broker, errors.New("this gateway has no cloud: set the broker's --url, or url in [cloud] of the configuration")
		}
		broker = cloudBroker(cfg.Cloud)
	}
	flags.apply(&broker)
	if flags.ca != "" {
		broker.CA = flags.ca
	}
	broker.ClientID = "gatehouse-tail-" + strings.ToLower(rand.Text()[:8])
	return broker, nil
}

// tail is one run of cloud tail.
type tail struct {
	*app
	broker       mqttclient.Config
	acknowledges bool
	end          context.CancelCauseFunc

	mu     sync.Mutex // mu guards what follows, and the output
	ever   bool       // there was a connection
	places map[site.GatewayID]*place
}

// follow makes one connection and serves it until it is lost. The first must succeed.
func (t *tail) follow(ctx context.Context) error {
	conn, err := mqttclient.Dial(ctx, t.broker)
	if err != nil {
		err = advised(err)
		if !t.ever {
			t.end(err)
		}
		return err
	}
	defer conn.Close()
	t.mu.Lock()
	t.ever = true
	for _, p := range t.places {
		p.due = true // what was sent meanwhile comes again
	}
	t.mu.Unlock()
	ticker := time.NewTicker(ackEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-conn.Lost():
			return conn.Err()
		case now := <-ticker.C:
			t.acknowledge(conn, now)
		}
	}
}

func (t *tail) acknowledge(conn *mqttclient.Conn, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for gateway, p := range t.places {
		if !p.due && (len(p.ahead) == 0 || now.Sub(p.said) < askEvery) {
			continue
		}
		p.due, p.said = false, now
		if ack := (api.Ack{Seq: max(p.next, 1) - 1}); t.acknowledges {
			conn.Publish(mqttclient.Message{Topic: api.Topic(gateway, api.AckLeaf), QoS: 1, Payload: api.Encode(ack)})
		}
	}
}

// early is a record that waits for one before it.
type early struct {
	seq     uint64
	payload []byte
}

// place is how far the journal of one gateway was printed.
type place struct {
	next  uint64           // the first record that was not printed; 0 before the gateway's status
	since *site.Timestamp  // of the gateway's connection
	ahead map[uint64]early // what came before its turn, by its first seq
	due   bool             // next is to be acknowledged, which also asks for what is missing
	said  time.Time        // when it was last
}

// status moves to where the gateway says that its journal goes on: on a new connection of
// the gateway's it may be back, after a restart or the restore of a backup.
func (p *place) status(s api.Status) {
	if s.Journal == nil || s.Since == nil {
		return
	}
	if p.since == nil || !p.since.Equal(s.Since.Time) || s.Journal.Next > p.next {
		p.since, p.next = s.Since, s.Journal.Next
	}
	maps.DeleteFunc(p.ahead, func(_ uint64, e early) bool { return e.seq < p.next })
}

// record takes a record, or a gap in the place of several.
func (p *place) record(payload []byte) error {
	var r site.Record
	if err := json.Unmarshal(payload, &r); err != nil {
		return fmt.Errorf("reading a record: %w", err)
	}
	first := r.Seq
	if r.Kind == site.KindGap && r.Boot == "" { // else the gateway's own record of it
		first = min(r.From, r.Seq)
	}
	if r.Seq < p.next {
		p.due = true // the gateway does not know that it was acknowledged
	} else if len(p.ahead) < maxAhead {
		p.ahead[max(first, p.next)] = early{r.Seq, payload}
	}
	return nil
}

// receive prints a message. Records wait until those before them have come.
func (t *tail) receive(m mqttclient.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	address, _ := api.ParseTopic(m.Topic)
	p := t.places[address.Gateway]
	if p == nil {
		p = &place{ahead: make(map[uint64]early), due: true}
		t.places[address.Gateway] = p
	}
	var status api.Status
	switch {
	case address.Leaf == api.JournalLeaf && !m.Retained:
		if err := p.record(m.Payload); err != nil {
			t.complain(err.Error())
		}
	case address.Leaf == api.StatusLeaf && json.Unmarshal(m.Payload, &status) == nil:
		p.status(status)
		fallthrough
	default:
		t.print(m)
	}
	for e, ok := p.ahead[p.next]; ok && p.next > 0; e, ok = p.ahead[p.next] {
		delete(p.ahead, p.next)
		p.next, p.due = e.seq+1, true
		t.print(mqttclient.Message{Topic: api.Topic(address.Gateway, api.JournalLeaf), Payload: e.payload})
	}
}

// message is a message as --json shows it.
type message struct {
	Topic    string `json:"topic"`
	Retained bool   `json:"retained"`
	Payload  any    `json:"payload"` // null: the topic has no payload any more
}

func (t *tail) print(m mqttclient.Message) {
	shown := message{Topic: m.Topic, Retained: m.Retained}
	switch {
	case json.Valid(m.Payload):
		shown.Payload = json.RawMessage(m.Payload)
	case len(m.Payload) > 0:
		shown.Payload = string(m.Payload)
	}
	if err := t.result(shown, func(w *lines) { w.printf("%s %s", printable(m.Topic), printable(string(m.Payload))) }); err != nil {
		t.end(err)
	}
}
