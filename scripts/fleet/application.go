package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
	"gatehouse/internal/test/cloudapp"
)

const (
	// A command that is not answered is sent again, the same one: the gateway carries it
	// out once. So does an application whose broker has just died.
	sendAgainAfter = 2 * time.Second
	lifetime       = api.MaxLifetime
	keepalive      = 30 * time.Second
)

// recordKey identifies a record.
type recordKey struct {
	gateway site.GatewayID
	seq     uint64
	boot    site.BootID
}

// application takes the records of all gateways, and sends commands.
type application struct {
	broker mqttclient.Config
	key    api.PrivateKey
	stop   func()
	ended  bool

	// The connection for commands, which belongs to who sends them.
	conn     *mqttclient.Conn
	dialling bool
	dialled  chan *mqttclient.Conn // capacity 1

	mu       sync.Mutex // guards the fields below
	records  map[recordKey][]byte
	twice    int
	odd      []string // events that should not be
	commands map[string]*command
}

// command is one that was sent.
type command struct {
	token    string
	gateway  site.GatewayID
	sent     time.Time
	last     time.Time // when it was sent last
	times    int
	answered time.Time
	outcome  site.Outcome
}

func (f *fleet) startApplication(context.Context) error {
	a := &application{
		broker: mqttclient.Config{Broker: mqttclient.Broker{URL: "tcp://" + f.front.Address(), Keepalive: keepalive}}, key: f.key,
		records: make(map[recordKey][]byte), commands: make(map[string]*command), dialled: make(chan *mqttclient.Conn, 1),
	}
	f.application = a
	ctx, cancel := context.WithCancel(context.Background())
	cfg := cloudapp.Config{
		Broker: a.broker, Acknowledge: true, Handle: a.handle, Backoff: mqttclient.Backoff{Least: 100 * time.Millisecond, Most: 2 * time.Second},
	}
	cfg.Broker.ClientID = "application"
	var running sync.WaitGroup
	running.Go(func() { cloudapp.Run(ctx, cfg) })
	a.stop = func() { cancel(); running.Wait() }
	return nil
}

func (a *application) handle(e cloudapp.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e.Kind {
	case cloudapp.Record:
		key := recordKey{e.Gateway, e.Record.Seq, e.Record.Boot}
		if a.records[key] != nil {
			a.twice++
		}
		a.records[key] = e.Payload
	case cloudapp.Result:
		a.answered(e)
	case cloudapp.Gap, cloudapp.Malformed:
		a.odd = append(a.odd, fmt.Sprintf("%s %s %s %s", e.Gateway, e.Kind, e.Payload, e.Detail))
	case cloudapp.Disconnected:
		progress("the application: %s", e.Detail)
	}
}

// answered takes an answer. The answer to a repetition says how the command ended.
func (a *application) answered(e cloudapp.Event) {
	c := a.commands[e.Result.ID]
	if c == nil || !c.answered.IsZero() {
		return
	}
	outcome := e.Result.Outcome
	if e.Result.Reason == string(api.Repeated) && e.Result.First != nil {
		if outcome = e.Result.First.Outcome; outcome == site.Requested {
			return // it is under way
		}
	}
	c.answered, c.outcome = time.Now(), outcome
}

// send sends commands at the steady rate for a while, and again those that are not
// answered.
func (a *application) send(ctx context.Context, f *fleet, during time.Duration) error {
	tick := time.NewTicker(time.Duration(float64(time.Second) / f.rate))
	defer tick.Stop()
	again := time.NewTicker(sendAgainAfter / 10)
	defer again.Stop()
	end := time.NewTimer(during)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-again.C:
			a.sendAgain(ctx)
		case <-tick.C:
			n := len(a.commands) // every lock in turn
			station := site.StationID(1 + n/len(f.gateways)%f.options.stations)
			if err := a.command(ctx, f.gateways[n%len(f.gateways)].id, station); err != nil {
				return err
			}
		}
	}
}

func (a *application) command(ctx context.Context, gateway site.GatewayID, station site.StationID) error {
	now := time.Now()
	id := uuid.NewString()
	token, err := a.key.Sign(api.Command{
		ID: id, Gateway: gateway, Name: api.Unlock, Station: station, Lock: 1, Actor: "fleet", IssuedAt: now, Expires: now.Add(lifetime),
	})
	if err != nil {
		return err
	}
	c := &command{token: token, gateway: gateway, sent: now}
	a.mu.Lock()
	a.commands[id] = c
	a.mu.Unlock()
	a.publish(ctx, c)
	return nil
}

// publish sends a command. If there is no connection, it is sent again in its time.
func (a *application) publish(ctx context.Context, c *command) {
	c.last = time.Now()
	if !a.connected(ctx) {
		return
	}
	c.times++
	a.conn.Publish(mqttclient.Message{Topic: api.Topic(c.gateway, api.CommandLeaf), QoS: 1, Payload: []byte(c.token)})
}

// connected reports whether there is a connection to send commands over, and begins to
// make one where there is none. It does not wait.
func (a *application) connected(ctx context.Context) bool {
	select {
	case a.conn = <-a.dialled: // nil: it failed
		a.dialling = false
	default:
	}
	if a.conn != nil && a.conn.Err() != nil {
		a.conn.Close()
		a.conn = nil
	}
	if a.conn == nil && !a.dialling {
		a.dialling = true
		go func() {
			cfg := a.broker
			cfg.ClientID = "sender-" + uuid.NewString()
			conn, err := mqttclient.Dial(ctx, cfg)
			if err != nil {
				progress("the sender: %v", err)
			}
			a.dialled <- conn
		}()
	}
	return a.conn != nil
}

// sendAgain sends again what is not answered and still holds, and returns how many are
// open.
func (a *application) sendAgain(ctx context.Context) (open int) {
	a.mu.Lock()
	var due []*command
	for _, c := range a.commands {
		if c.answered.IsZero() && time.Since(c.sent) < lifetime {
			open++
			if time.Since(c.last) >= sendAgainAfter {
				due = append(due, c)
			}
		}
	}
	a.mu.Unlock()
	for _, c := range due {
		a.publish(ctx, c)
	}
	return open
}

// settleCommands waits until every command is answered, or none can be any more.
func (a *application) settleCommands(ctx context.Context) {
	for a.sendAgain(ctx) > 0 && ctx.Err() == nil {
		pause(ctx, sendAgainAfter/10)
	}
}

// end ends it.
func (a *application) end() {
	if a.ended {
		return
	}
	a.ended = true
	a.stop()
	if a.dialling {
		a.conn = <-a.dialled
	}
	if a.conn != nil {
		a.conn.Close()
	}
}

// sorted returns the commands in the order in which they were sent.
func (a *application) sorted() []*command {
	all := slices.Collect(maps.Values(a.commands))
	slices.SortFunc(all, func(x, y *command) int { return x.sent.Compare(y.sent) })
	return all
}
