package cloudtail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

const (
	// tickEvery is how often time is looked at.
	tickEvery = 50 * time.Millisecond
	// maxGateways bounds what is held; messages of further ones are not taken.
	maxGateways = 10_000
	// What an application takes in is bounded by the windows of the gateways.
	perSecond  = 100_000
	maxPayload = 64 << 10
)

// All stands for every gateway that the broker lets the application see.
const All = site.GatewayID("+")

// Config says what to follow, and what to do with it.
type Config struct {
	// Broker is where to connect and as whom; the tail fills in the topics. ClientID
	// may be no gateway's: the broker would end that one's connection.
	Broker mqttclient.Config

	Gateway     site.GatewayID // [All] or one
	Acknowledge bool           // else records stay undelivered for their gateways
	State       string         // the file that says how far the records have come; "": begin anew

	// Handle takes each event, one after the other; an error ends the tail. What it has
	// returned for counts as taken.
	Handle func(Event) error

	Backoff mqttclient.Backoff // zero: 1 s to 1 min
}

// Run follows until ctx ends, through every loss of the connection, or until Handle or
// the state file fails. What is wrong with the settings ends it, too: an error that is a
// [*mqttclient.DialError] of [mqttclient.StepConfiguration].
func Run(ctx context.Context, cfg Config) error {
	t, err := newTail(cfg)
	if err != nil {
		return err
	}
	return t.run(ctx)
}

// connection is what the tail speaks through: a [mqttclient.Conn].
type connection interface {
	Publish(m mqttclient.Message) *mqttclient.Delivery
	Lost() <-chan struct{}
	Err() error
	Close()
}

// tail is one running application. Its own goroutine does everything but dialling.
type tail struct {
	Config
	dial  func(ctx context.Context, cfg mqttclient.Config) (connection, error)
	inbox chan mqttclient.Message // no capacity: a message is taken, or its sender waits

	ledgers map[site.GatewayID]*ledger
	state   stateFile
	conn    connection // nil while there is none
	ever    bool       // there was one
	failed  error      // of Handle or the state file
}

func newTail(cfg Config) (*tail, error) {
	if cfg.Handle == nil || cfg.Gateway == "" {
		return nil, errors.New("following the cloud needs a gateway and what to do with events")
	}
	if cfg.Backoff.Most <= 0 {
		cfg.Backoff.Most = time.Minute
	}
	state, err := loadState(cfg.State)
	if err != nil {
		return nil, err
	}
	t := &tail{
		Config: cfg, dial: dial, state: state,
		inbox: make(chan mqttclient.Message), ledgers: make(map[site.GatewayID]*ledger),
	}
	for gateway, kept := range state.Gateways {
		if cfg.Gateway == All || cfg.Gateway == gateway {
			l := t.ledger(gateway)
			l.begun, l.last, l.boots = true, kept.Last, kept.Boots
		}
	}
	return t, nil
}

func dial(ctx context.Context, cfg mqttclient.Config) (connection, error) {
	conn, err := mqttclient.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// run connects again and again.
func (t *tail) run(ctx context.Context) error {
	tries := t.Backoff.Start()
	for ctx.Err() == nil {
		began := time.Now()
		err := t.follow(ctx)
		if t.failed != nil || ctx.Err() != nil {
			break
		}
		text, hopeless := t.explain(err)
		if hopeless {
			return err
		}
		delay := tries.Next(time.Since(began))
		t.tell(Event{Kind: Disconnected, Detail: fmt.Sprintf("%s; next attempt in %s", text, delay.Round(100*time.Millisecond))})
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return t.failed
}

// explain gives what is said of a connection that is lost or was never made, and
// whether another attempt is of any use.
func (t *tail) explain(err error) (text string, hopeless bool) {
	dial, ok := errors.AsType[*mqttclient.DialError](err)
	if !ok {
		return err.Error(), false
	}
	text = err.Error()
	if dial.Advice != "" {
		text += ": " + dial.Advice
	}
	return text, dial.Step == mqttclient.StepConfiguration && !t.ever
}

// dialled is how an attempt to connect ended.
type dialled struct {
	conn connection
	err  error
}

// follow makes one connection and serves it until it is lost, with the reason, until
// ctx ends, or until something fails.
func (t *tail) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	attempt := make(chan dialled, 1)
	go func() {
		conn, err := t.dial(ctx, t.dialConfig(ctx))
		attempt <- dialled{conn, err}
	}()
	defer func() {
		cancel() // who waits to hand a message over goes
		if attempt != nil {
			if late := <-attempt; late.conn != nil {
				late.conn.Close()
			}
		} else if t.conn != nil {
			t.conn.Close()
		}
		t.conn = nil
	}()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	var lost <-chan struct{}
	for t.failed == nil {
		select {
		case <-ctx.Done():
			t.acknowledge(func(*ledger) bool { return true })
			return nil
		case d := <-attempt:
			attempt = nil
			if d.err != nil {
				return d.err
			}
			lost = d.conn.Lost()
			t.connected(d.conn)
		case <-lost:
			return t.conn.Err()
		case m := <-t.inbox:
			t.receive(m)
		case <-ticker.C:
			t.tick()
		}
	}
	return t.failed
}

// dialConfig adds to the configured broker what makes the connection an application's.
func (t *tail) dialConfig(ctx context.Context) mqttclient.Config {
	cfg := t.Broker
	cfg.Topics = api.Filters(t.Gateway)
	cfg.PerSecond, cfg.Burst, cfg.MaxPayload = perSecond, perSecond, maxPayload
	cfg.Receive = func(m mqttclient.Message) {
		select {
		case t.inbox <- m:
		case <-ctx.Done():
		}
	}
	return cfg
}

// connected begins with a new connection. What was to be acknowledged over the one
// before it is not: the gateway may be another by now, and sends it again.
func (t *tail) connected(conn connection) {
	t.save()
	t.conn, t.ever = conn, true
	t.tell(Event{Kind: Connected, Detail: t.Broker.URL})
	for _, l := range t.ledgers {
		l.forget()
		l.arrived()
	}
}

// tell hands an event to the application.
func (t *tail) tell(e Event) {
	if t.failed == nil {
		e.Time = site.At(time.Now())
		t.failed = t.Handle(e)
	}
}

// ledger gives that of a gateway; nil if there are too many.
func (t *tail) ledger(gateway site.GatewayID) *ledger {
	l := t.ledgers[gateway]
	if l == nil && len(t.ledgers) < maxGateways {
		l = newLedger(gateway, t.Acknowledge, t.tell)
		l.arrived()
		t.ledgers[gateway] = l
	}
	return l
}

// receive takes one message.
func (t *tail) receive(m mqttclient.Message) {
	address, ok := api.ParseTopic(m.Topic)
	if !ok {
		return // no filter asks for it
	}
	l := t.ledger(address.Gateway)
	if l == nil {
		return
	}
	var err error
	switch {
	case len(m.Payload) > maxPayload:
		err = fmt.Errorf("it is longer than %d bytes", maxPayload)
	case address.Leaf == api.JournalLeaf:
		err = t.receiveItem(l, m)
	default:
		var e Event
		if e, err = decode(m, address); err == nil {
			if e.Kind != Status || l.news(*e.Status) {
				t.tell(e)
			}
			if e.Kind == Status && e.Status.Status == api.Online {
				l.says(time.Now(), e.Status.Since, e.Retained)
			}
		}
	}
	if err != nil {
		t.tell(Event{Kind: Malformed, Gateway: address.Gateway, Station: address.Station, Detail: fmt.Sprintf("%s: %v", address.Leaf, err)})
	}
}

func (t *tail) receiveItem(l *ledger, m mqttclient.Message) error {
	if m.Retained {
		return errors.New("it is retained, which no gateway asks for")
	}
	it, err := parseItem(m.Payload)
	if err != nil {
		return err
	}
	now := time.Now()
	l.receive(now, it)
	if l.full() {
		t.acknowledge((*ledger).full)
	}
	return nil
}

// tick does what is due.
func (t *tail) tick() {
	now := time.Now()
	waiting := false
	for _, l := range t.ledgers {
		l.tick(now)
		if t.Acknowledge && t.conn != nil && l.due(now) {
			t.publishAck(l.gateway, 0)
		}
		waiting = waiting || l.unsaid(now)
	}
	if waiting {
		t.acknowledge(func(l *ledger) bool { return l.unsaid(now) })
	}
}

// acknowledge keeps how far the records have come, and then says so to those gateways.
func (t *tail) acknowledge(whom func(*ledger) bool) {
	t.save()
	if t.failed != nil {
		return
	}
	for _, l := range t.ledgers {
		if !whom(l) {
			continue
		}
		if seq, ok := l.acknowledge(); ok && t.Acknowledge && t.conn != nil {
			t.publishAck(l.gateway, seq)
		}
	}
}

// publishAck acknowledges. Nothing (0) never says too much, and has the gateway send
// again from what it does not count as delivered.
func (t *tail) publishAck(gateway site.GatewayID, seq uint64) {
	t.conn.Publish(mqttclient.Message{
		Topic: api.Topic(gateway, api.AckLeaf), QoS: 1, Payload: api.Encode(api.Ack{Seq: seq}),
	})
}

// save writes the state where something was given.
func (t *tail) save() {
	if t.failed != nil || t.Config.State == "" {
		return
	}
	changed := false
	for gateway, l := range t.ledgers {
		if l.begun && t.state.Gateways[gateway].Last != l.last {
			changed = true
			t.state.Gateways[gateway] = progress{Last: l.last, Boots: slices.Clone(l.boots)}
		}
	}
	if changed {
		t.failed = t.state.save(t.Config.State)
	}
}
