package stationsim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const (
	writeTimeout = 2 * time.Second
	goodbye      = 250 // milliseconds that a clean disconnect may take
	maxInbox     = 32  // commands that wait for the station's goroutine
)

// link is one connection to the broker. A client of the library is used for one
// connection only: its own reconnecting can report a delivery that never was.
type link struct {
	client  mqtt.Client
	inbox   chan mqtt.Message // commands; bounded, what does not fit is lost
	lost    chan error        // one error when the connection ends by itself
	unguard func() bool       // ends the hold of dial's context on the connection
}

// dial connects and subscribes to the station's commands. It gives up, and leaves
// nothing behind, when ctx ends.
func dial(ctx context.Context, cfg Config) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l := &link{
		inbox:   make(chan mqtt.Message, maxInbox),
		lost:    make(chan error, 1),
		unguard: func() bool { return true },
	}
	l.client = mqtt.NewClient(l.options(ctx, cfg))
	connecting := l.client.Connect()
	<-connecting.Done() // bounded: the end of ctx closes the connection under it
	if err := connecting.Error(); err != nil {
		l.unguard()
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if err := l.reportUptime(ctx, cfg); err != nil {
		l.close()
		return nil, err
	}
	if err := l.subscribe(ctx, cfg); err != nil {
		l.close()
		return nil, err
	}
	l.unguard()
	return l, nil
}

func (l *link) options(ctx context.Context, cfg Config) *mqtt.ClientOptions {
	return mqtt.NewClientOptions().
		AddBroker("tcp://" + cfg.Broker.Address).
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return l.open(ctx, cfg.Broker) }).
		SetClientID(cfg.ClientID).
		SetUsername(cfg.Username).
		SetPassword(cfg.Secret.Reveal()).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetConnectTimeout(connectTimeout).
		SetKeepAlive(cfg.KeepAlive).
		SetWriteTimeout(writeTimeout).
		SetOrderMatters(false).
		SetAutoAckDisabled(true).
		SetStore(mqtt.NewMemoryStore()).
		SetConnectionLostHandler(func(_ mqtt.Client, err error) { l.lost <- err })
}

// open opens the connection below MQTT. Until the link is unguarded, the end of
// ctx closes the connection.
func (l *link) open(ctx context.Context, broker Broker) (net.Conn, error) {
	conn, err := broker.Dial(ctx, "tcp", broker.Address)
	if err != nil {
		return nil, err
	}
	l.unguard = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if broker.TLS == nil {
		return conn, nil
	}
	secured := tls.Client(conn, withServerName(broker))
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secured, nil
}

func withServerName(broker Broker) *tls.Config {
	if broker.TLS.ServerName != "" {
		return broker.TLS
	}
	cfg := broker.TLS.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(broker.Address)
	return cfg
}

// reportUptime publishes the station's uptime and waits until the broker has it.
func (l *link) reportUptime(ctx context.Context, cfg Config) error {
	token := l.client.Publish(reportTopic(cfg.ID), 1, false, encode(firstReport{cfg.Uptime().Milliseconds()}))
	select {
	case <-token.Done():
	case <-ctx.Done():
		return fmt.Errorf("reporting: %w", ctx.Err())
	}
	if err := token.Error(); err != nil {
		return fmt.Errorf("reporting: %w", err)
	}
	return nil
}

// errNotSubscribed is a SUBACK that refuses.
var errNotSubscribed = errors.New("the broker refuses the subscription to the station's commands")

func (l *link) subscribe(ctx context.Context, cfg Config) error {
	topic := commandTopic(cfg.ID)
	token := l.client.Subscribe(topic, *cfg.QoS, func(_ mqtt.Client, m mqtt.Message) {
		select {
		case l.inbox <- m:
		default:
		}
	})
	select {
	case <-token.Done():
	case <-ctx.Done():
		return fmt.Errorf("subscribing: %w", ctx.Err())
	}
	if err := token.Error(); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	// A refusal is no error of the token (SUBACK 0x80).
	if granted, ok := token.(*mqtt.SubscribeToken); !ok || granted.Result()[topic] != *cfg.QoS {
		return errNotSubscribed
	}
	return nil
}

// publish hands a message to the connection; whether it arrives is not waited for.
func (l *link) publish(topic string, qos byte, message any) {
	l.client.Publish(topic, qos, false, encode(message))
}

// refuse publishes the result of a command that the station ignores, and acknowledges the
// command once the broker has that result: the first answer counts (contract, section 2).
func (l *link) refuse(topic string, r result, ack func()) {
	token := l.client.Publish(topic, 1, false, encode(r))
	go func() {
		<-token.Done() // the end of the connection completes it too
		if token.Error() == nil {
			ack()
		}
	}()
}

// close says goodbye to the broker and ends the connection.
func (l *link) close() {
	l.unguard()
	l.client.Disconnect(goodbye)
}
