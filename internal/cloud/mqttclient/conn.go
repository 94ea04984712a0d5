package mqttclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const (
	dialTimeout = 30 * time.Second       // for all of [Dial]
	leastShare  = 5 * time.Second        // of that for one of several addresses
	pingTimeout = 365 * 24 * time.Hour   // paho's; the filter is the judge of silence
	nowhere     = "tcp://broker.invalid" // a URL that paho wants and never uses
)

var errNoAddress = errors.New("the name has no address")

// ErrClosed is why a connection that [Conn.Close] has ended is over.
var ErrClosed = errors.New("the connection to the broker was closed")

// Conn is one connection to a broker. Its methods are safe for concurrent use, also
// after its end.
type Conn struct {
	filter  *filter
	client  mqtt.Client
	receive func(Message)
	closing sync.Once
}

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
	if p.Connected != nil {
		p.Connected(p.tls != nil || local(raw))
	}
	c := &Conn{filter: newFilter(stream, raw, p.Config), receive: p.Receive}
	c.client = mqtt.NewClient(p.options(c))
	unguard := context.AfterFunc(ctx, func() { c.filter.finish(ctx.Err()) })
	login := c.client.Connect()
	<-login.Done() // the end of ctx ends the connection
	if err := login.Error(); err != nil {
		unguard()
		c.filter.finish(err) // paho has given up by itself
		return nil, StepLogin, c.filter.cause()
	}
	err = c.subscribe(p.Topics)
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
		return nil, StepSubscribe, err
	}
	return c, StepSubscribe, nil
}

// local reports whether a connection leads to this machine. The name of the broker does not
// tell: what it resolves to may change.
func local(c net.Conn) bool {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// options are those under which paho was found to behave; by itself it has a clean session, a
// store in memory and no retry of CONNECT, and hands out messages one after the other.
func (p *plan) options(c *Conn) *mqtt.ClientOptions {
	o := mqtt.NewClientOptions().
		AddBroker(nowhere).
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return c.filter, nil }).
		SetClientID(p.ClientID).
		SetUsername(p.Username).
		SetPassword(p.Password.Reveal()).
		SetProtocolVersion(4).
		SetAutoReconnect(false).
		SetKeepAlive(p.Keepalive).
		SetPingTimeout(pingTimeout).
		SetAutoAckDisabled(true).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { c.take(m) })
	if p.Will != nil {
		o.SetBinaryWill(p.Will.Topic, p.Will.Payload, p.Will.QoS, p.Will.Retained)
	}
	return o
}

// subscribe subscribes to every topic, and then waits for the answers.
func (c *Conn) subscribe(topics []string) error {
	answers := make([]*Delivery, len(topics))
	for i, topic := range topics {
		answers[i] = c.filter.subscribe(topic)
	}
	for _, answer := range answers {
		if err := answer.Err(); err != nil {
			return err
		}
	}
	return nil
}

// take hands a message to Receive and then acknowledges it.
func (c *Conn) take(m mqtt.Message) {
	if !c.filter.begin() {
		return
	}
	defer c.filter.receiving.Done()
	defer func() {
		if r := recover(); r != nil {
			c.filter.finish(fmt.Errorf("a mistake in the gateway, in taking a message from the broker: %v", r))
		}
	}()
	c.receive(Message{Topic: m.Topic(), Payload: m.Payload(), QoS: m.Qos(), Retained: m.Retained()})
	m.Ack()
}

// Lost is closed when the connection is over, by itself or by [Conn.Close].
func (c *Conn) Lost() <-chan struct{} { return c.filter.over }

// Err returns why the connection is over: [ErrClosed] after Close. It is nil before.
func (c *Conn) Err() error { return c.filter.cause() }

// Close ends the connection without a DISCONNECT: the broker publishes the will. It
// returns when Receive has. It may be called more than once, and after the
// connection was lost.
func (c *Conn) Close() {
	c.closing.Do(func() {
		c.filter.finish(ErrClosed)
		c.client.Disconnect(0)
	})
	c.filter.receiving.Wait()
}
