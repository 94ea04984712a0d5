package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
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
	gateway string
	noAck   bool
}

const cloudTailLong = `Do what an application in the cloud does: subscribe to what gateways publish, print
each message with its topic as it comes, and acknowledge the records of the journal
before which none is missing. Ends with Ctrl-C, or when the connection is lost.

A gateway never sends again what is acknowledged: where an application takes the
records already, use --no-ack. The broker is that of [cloud] in the configuration, or
of GATEHOUSE_CLOUD_URL and GATEHOUSE_CLOUD_CA. Its login is the gateway's own, which
should have no right to all this: set the application's with the flags.`

const cloudTailExample = `  gatehouse cloud tail --no-ack
  gatehouse cloud tail --username app --password-file app.password
  gatehouse cloud tail --gateway 6f1c7a3e-3f5b-4d0c-9a55-0d8c5a1f2b3c --json >> messages.json`

func (a *app) cloudTailCommand() *cobra.Command {
	var flags cloudFollowing
	cmd := a.command(&cobra.Command{
		Use:     "tail",
		Short:   "Print what gateways publish, as an application sees it",
		Long:    cloudTailLong,
		Example: cloudTailExample,
	}, func(ctx context.Context, _ []string) error { return a.cloudTail(ctx, flags) })
	f := cmd.Flags()
	f.StringVar(&flags.gateway, "gateway", "", "only the gateway with the `ID` (default all that the login may see)")
	f.BoolVar(&flags.noAck, "no-ack", false, "acknowledge nothing")
	flags.add(cmd)
	return cmd
}

func (a *app) cloudTail(ctx context.Context, flags cloudFollowing) (err error) {
	gateway := site.GatewayID("+")
	if flags.gateway != "" {
		if gateway, err = a.gatewayID(ctx, flags.gateway); err != nil {
			return err
		}
	}
	cfg, err := a.cloudSettings()
	if err != nil {
		return err
	}
	t := &tail{app: a, journals: make(map[site.GatewayID]*position)}
	broker := cloudBroker(cfg)
	flags.apply(&broker)
	broker.ClientID = "gatehouse-tail-" + strings.ToLower(rand.Text()[:8])
	broker.PerSecond, broker.Burst, broker.MaxPayload = tailPerSecond, tailPerSecond, tailMaxPayload
	broker.Topics, broker.Receive = api.Filters(gateway), t.receive
	conn, err := mqttclient.Dial(ctx, broker)
	if err != nil {
		return advised(err)
	}
	defer conn.Close()
	ticker := time.NewTicker(ackEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-conn.Lost():
			return conn.Err()
		case <-ticker.C:
			if acks, err := t.acks(); err != nil {
				return err
			} else if !flags.noAck {
				for _, ack := range acks {
					conn.Publish(ack)
				}
			}
		}
	}
}

const (
	tailPerSecond  = 100_000 // messages; the gateways' windows bound them
	tailMaxPayload = 64 << 10
	// ackEvery is how often records are acknowledged.
	ackEvery = 200 * time.Millisecond
)

// tail is one run of cloud tail.
type tail struct {
	*app

	mu       sync.Mutex // mu guards what follows, and the output
	failed   error      // of the output
	journals map[site.GatewayID]*position
}

// position is how far the journal of one gateway has come.
type position struct {
	next  uint64          // the first record that is missing; 0 before the gateway's status
	since *site.Timestamp // of the gateway's connection
	due   bool            // the records before next are to be acknowledged
}

// status moves to the record that the gateway's status names as the next one: on a new
// connection that may be an earlier one, after a restart or the restore of a backup.
func (p *position) status(s api.Status) {
	if s.Journal == nil || s.Since == nil {
		return
	}
	if p.since == nil || !p.since.Equal(s.Since.Time) || s.Journal.Next > p.next {
		p.since, p.next = s.Since, s.Journal.Next
	}
}

// record takes a record, or a gap that replaces several. Those behind a missing one come
// again after it.
func (p *position) record(r site.Record) {
	first := r.Seq
	if r.Kind == site.KindGap && r.Boot == "" { // else the gateway's own record of it
		first = r.From
	}
	if first <= p.next { // an earlier one: the gateway does not know that it was acknowledged
		p.next, p.due = max(p.next, r.Seq+1), true
	}
}

// receive prints a message.
func (t *tail) receive(m mqttclient.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = errors.Join(t.failed, t.print(m))
	address, _ := api.ParseTopic(m.Topic)
	p := t.journals[address.Gateway]
	if p == nil {
		p = &position{due: true} // what was sent before comes again
		t.journals[address.Gateway] = p
	}
	var status api.Status
	var record site.Record
	switch {
	case address.Leaf == api.JournalLeaf && !m.Retained && json.Unmarshal(m.Payload, &record) == nil:
		p.record(record)
	case address.Leaf == api.StatusLeaf && json.Unmarshal(m.Payload, &status) == nil:
		p.status(status)
	}
}

// acks returns the acknowledgements that are due. The error is that of the output.
func (t *tail) acks() (due []mqttclient.Message, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for gateway, p := range t.journals {
		if p.due {
			p.due = false
			due = append(due, mqttclient.Message{
				Topic: api.Topic(gateway, api.AckLeaf), QoS: 1, Payload: api.Encode(api.Ack{Seq: max(p.next, 1) - 1}),
			})
		}
	}
	return due, t.failed
}

// message is a message as --json shows it.
type message struct {
	Topic    string `json:"topic"`
	Retained bool   `json:"retained"`
	Payload  any    `json:"payload"` // null: the topic has no payload any more
}

func (t *tail) print(m mqttclient.Message) error {
	shown := message{Topic: m.Topic, Retained: m.Retained}
	switch {
	case json.Valid(m.Payload):
		shown.Payload = json.RawMessage(m.Payload)
	case len(m.Payload) > 0:
		shown.Payload = string(m.Payload)
	}
	return t.result(shown, func(w *lines) { w.printf("%s %s", printable(m.Topic), printable(string(m.Payload))) })
}
