package mqttclient

import (
	"context"
	"errors"
	"fmt"
	"net"
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
// nodes fails at any step. It fails when ctx ends, and after 30 s. Its errors are of
// type [*DialError], of the address with the most steps done; after an error nothing is
// left running.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	p, err := cfg.prepare()
	if err != nil {
		return nil, &DialError{Step: StepConfiguration, Err: err, Advice: adviceConfiguration}
	}
	addresses, err := p.addresses(ctx)
	if err != nil {
		return nil, p.failed(ctx, StepResolve, err)
	}
	var furthest *DialError
	for n, address := range addresses {
		c, failed := p.try(ctx, address, len(addresses)-n)
		if failed == nil {
			return c, nil
		}
		if furthest == nil || failed.Step.after(furthest.Step) {
			furthest = failed
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, furthest
}

// addresses returns the addresses of the broker's host, each with its port; at least one.
// Where Open is given and Lookup is not, Open resolves the name.
func (p *plan) addresses(ctx context.Context) ([]string, error) {
	lookup := p.Lookup
	switch {
	case net.ParseIP(p.endpoint.Host) != nil, lookup == nil && p.Open != nil:
		return []string{p.endpoint.Address}, nil
	case lookup == nil:
		lookup = net.DefaultResolver.LookupHost
	}
	found, err := lookup(ctx, p.endpoint.Host)
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: p.endpoint.Host, IsNotFound: true}
	}
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(p.endpoint.Address)
	for n := range found {
		found[n] = net.JoinHostPort(found[n], port)
	}
	return found, err
}

// try connects to one address, with its share of the time that is left for so many.
func (p *plan) try(ctx context.Context, address string, left int) (*Conn, *DialError) {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, max(time.Until(deadline)/time.Duration(left), leastShare))
	defer cancel()
	c, step, err := p.connect(ctx, address, left > 1)
	if err == nil {
		return c, nil
	}
	if left > 1 {
		err = fmt.Errorf("%s: %w", address, err)
	}
	return nil, p.failed(ctx, step, err)
}

// connect takes every step to one address; it names the one that failed. If there are
// others, it waits for TCP no longer than leastShare.
func (p *plan) connect(ctx context.Context, address string, others bool) (*Conn, Step, error) {
	raw, stream, step, err := p.open(ctx, address, others)
	if err != nil {
		return nil, step, err
	}
	c := p.newConn(stream, raw)
	unguard := context.AfterFunc(ctx, func() { c.filter.finish(ctx.Err()) })
	if err := c.login(); err != nil {
		unguard()
		c.filter.finish(err) // paho has given up by itself
		return nil, StepLogin, err
	}
	err = c.subscribe(p.Topics)
	if err == nil {
		err = c.subscribe(p.Optional)
		if _, refused := errors.AsType[unsubscribed](err); refused {
			err = nil
		}
	}
	if !unguard() {
		err = firstOf(err, ctx.Err())
	}
	if err != nil {
		c.Close()
		return nil, StepSubscribe, err
	}
	return c, StepSubscribe, nil
}

func (p *plan) newConn(stream, raw net.Conn) *Conn {
	c := &Conn{filter: newFilter(stream, raw, p.Config), receive: p.Receive}
	c.client = mqtt.NewClient(p.options(c))
	return c
}

// options are those under which paho was found to behave.
func (p *plan) options(c *Conn) *mqtt.ClientOptions {
	o := mqtt.NewClientOptions().
		AddBroker(nowhere).
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return c.filter, nil }).
		SetClientID(p.ClientID).
		SetUsername(p.Username).
		SetPassword(p.Password.Reveal()).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetKeepAlive(p.KeepAlive).
		SetPingTimeout(pingTimeout).
		SetOrderMatters(false).
		SetAutoAckDisabled(true).
		SetStore(mqtt.NewMemoryStore()).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { c.take(m) })
	if p.Will != nil {
		o.SetBinaryWill(p.Will.Topic, p.Will.Payload, p.Will.QoS, p.Will.Retained)
	}
	return o
}

// login waits until paho has logged in. It takes no longer than Dial may: the end of
// its time ends the connection.
func (c *Conn) login() error {
	connecting := c.client.Connect()
	<-connecting.Done()
	if connecting.Error() == nil {
		return nil
	}
	return firstOf(c.filter.cause(), connecting.Error())
}

// subscribe subscribes to every topic, and then waits for the answers.
func (c *Conn) subscribe(topics []string) error {
	answers := make([]*Delivery, len(topics))
	for i, topic := range topics {
		answers[i] = c.filter.subscribe(topic)
	}
	for _, answer := range answers {
		<-answer.Done()
		if err := answer.Err(); err != nil {
			return err
		}
	}
	return nil
}

// take hands a message to Receive and then acknowledges it.
func (c *Conn) take(m mqtt.Message) {
	defer func() { <-c.filter.places }()
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

// Err says why the connection is over: [ErrClosed] after Close. It is nil before.
func (c *Conn) Err() error { return c.filter.cause() }

// Close ends the connection without a DISCONNECT: the broker publishes the will. It
// returns when every Receive has. It may be called more than once, and after the
// connection was lost.
func (c *Conn) Close() {
	c.closing.Do(func() {
		c.filter.finish(ErrClosed)
		c.client.Disconnect(0)
	})
	c.filter.receiving.Wait()
}
