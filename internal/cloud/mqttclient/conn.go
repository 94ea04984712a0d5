package mqttclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

const (
	dialTimeout = 30 * time.Second // for all of [Dial]
	leastShare  = 5 * time.Second  // of that for one of several addresses
)

var errNoAddress = errors.New("the name has no address")

// ErrClosed is why a connection that [Conn.Close] has ended is over.
var ErrClosed = errors.New("the connection to the broker was closed")

// Dial connects, logs in and subscribes. The addresses of a name are tried in turn
// until one accepts the login; so a cluster behind one name is reached while one of its
// nodes fails at any step. Where there is not time for all of them, those to try are
// chosen at random. It fails when ctx ends, and after 30 s. Its errors are of type
// [*DialError], of the address with the most steps done; after an error nothing is left
// running.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	p, err := cfg.prepare()
	if err != nil {
		return nil, &DialError{Step: StepConfiguration, Err: err, Advice: adviceConfiguration}
	}
	addresses, err := p.Lookup(ctx, p.endpoint.Host)
	if err != nil {
		return nil, p.failed(ctx, StepResolve, err)
	}
	if len(addresses) > int(dialTimeout/leastShare) { // those that have no turn now have one another time
		rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] }) //nolint:gosec // spreads attempts, guards nothing
	}
	furthest := p.failed(ctx, StepResolve, errNoAddress)
	for n, address := range addresses {
		address = net.JoinHostPort(address, p.endpoint.Port)
		c, step, err := p.connect(ctx, address, len(addresses)-n)
		if err == nil {
			return c, nil
		}
		if len(addresses) > 1 {
			err = fmt.Errorf("%s: %w", address, err)
		}
		if step.after(furthest.Step) {
			furthest = p.failed(ctx, step, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, furthest
}

// connect takes every step to one address, with its share of the time that is left for so
// many; it names the step that failed.
func (p *plan) connect(ctx context.Context, address string, left int) (*Conn, Step, error) {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, max(time.Until(deadline)/time.Duration(left), leastShare))
	defer cancel()
	raw, err := p.Open(ctx, "tcp", address)
	if err != nil {
		return nil, StepConnect, err
	}
	stream := raw
	if p.tls != nil {
		secure := tls.Client(raw, p.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, StepTLS, err
		}
		stream = secure
	}
	c := newConn(stream, raw, p.Config)
	unguard := context.AfterFunc(ctx, func() { c.finish(ctx.Err()) }) // ends every wait below
	step, err := StepLogin, c.login(p.Config)
	if err == nil {
		step, err = StepSubscribe, c.subscribe(p.Topics)
	}
	if err == nil {
		err = c.subscribe(p.Optional)
		if _, refused := errors.AsType[unsubscribed](err); refused {
			err = nil
		}
	}
	if !unguard() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, step, err
	}
	return c, step, nil
}

// login sends CONNECT, waits for the answer, and has the connection kept alive from then on.
func (c *Conn) login(cfg Config) error {
	answer := &Delivery{answer: packets.Connack, done: make(chan struct{})}
	c.unanswered[0] = answer
	c.running.Go(c.read)
	packet := &packets.ConnectPacket{
		FixedHeader:  packets.FixedHeader{MessageType: packets.Connect},
		ProtocolName: "MQTT", ProtocolVersion: 4, CleanSession: true, Keepalive: uint16(cfg.KeepAlive / time.Second), //nolint:gosec // at most 18 h
		ClientIdentifier: cfg.ClientID, UsernameFlag: cfg.Username != "", Username: cfg.Username,
		PasswordFlag: cfg.Password != "", Password: []byte(cfg.Password.Reveal()),
	}
	if will := cfg.Will; will != nil {
		packet.WillFlag, packet.WillTopic, packet.WillMessage = true, will.Topic, will.Payload
		packet.WillQos, packet.WillRetain = will.QoS, will.Retained
	}
	c.write(encode(packet))
	if err := answer.Err(); err != nil {
		return err
	}
	c.running.Go(func() { c.ping(cfg.KeepAlive) })
	return nil
}

// subscribe subscribes to every topic, and then waits for the answers.
func (c *Conn) subscribe(topics []string) error {
	answers := make([]*Delivery, len(topics))
	for i, topic := range topics {
		packet := &packets.SubscribePacket{
			FixedHeader: packets.FixedHeader{MessageType: packets.Subscribe, Qos: 1}, // as section 3.8.1 wants it
			Topics:      []string{topic}, Qoss: []byte{1},
		}
		answers[i] = &Delivery{answer: packets.Suback, topic: topic, done: make(chan struct{})}
		c.request(answers[i], packet, &packet.MessageID)
	}
	for _, answer := range answers {
		if err := answer.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Lost is closed when the connection is over, by itself or by [Conn.Close].
func (c *Conn) Lost() <-chan struct{} { return c.over }

// Err returns why the connection is over: [ErrClosed] after Close. It is nil before.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection without a DISCONNECT: the broker publishes the will. It
// returns when Receive has. It may be called more than once, and after the
// connection was lost.
func (c *Conn) Close() {
	c.finish(ErrClosed)
	c.running.Wait()
}
