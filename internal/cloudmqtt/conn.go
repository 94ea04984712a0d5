package cloudmqtt

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
	goodbye     = 1000                   // milliseconds that a clean end may take
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

// Dial connects, logs in and subscribes. It gives up when ctx ends, and after 30 s. Its
// errors are of type [*DialError]; nothing is left running behind one.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	p, err := cfg.prepare()
	if err != nil {
		return nil, &DialError{Step: StepConfiguration, Err: err, Advice: adviceConfiguration}
	}
	raw, stream, step, err := p.open(ctx)
	if err != nil {
		return nil, p.failed(ctx, step, err)
	}
	c := p.newConn(stream, raw)
	unguard := context.AfterFunc(ctx, func() { c.filter.finish(ctx.Err()) })
	if err := c.login(); err != nil {
		unguard()
		c.filter.finish(err) // paho has given up by itself
		return nil, p.failed(ctx, StepLogin, err)
	}
	err = c.subscribe(p.Topics)
	if !unguard() {
		err = firstOf(err, ctx.Err())
	}
	if err != nil {
		c.Close()
		return nil, p.failed(ctx, StepSubscribe, err)
	}
	return c, nil
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

// Close says goodbye to the broker, for at most a second, and ends the connection: the
// broker does not publish the will. It returns when every Receive has. It may be called
// more than once, and after the connection was lost.
func (c *Conn) Close() {
	c.closing.Do(func() {
		c.filter.leave()
		c.client.Disconnect(goodbye)
		c.filter.finish(ErrClosed)
		_ = c.filter.raw.Close()
		c.client.Disconnect(goodbye) // waits for what the first had no time for
	})
	c.filter.receiving.Wait()
}

// Drop ends the connection without a goodbye: the broker publishes the will. It returns
// when every Receive has. After it [Conn.Close] does nothing.
func (c *Conn) Drop() {
	c.closing.Do(func() {
		c.filter.finish(ErrClosed)
		_ = c.filter.raw.Close()
		c.client.Disconnect(goodbye)
	})
	c.filter.receiving.Wait()
}
