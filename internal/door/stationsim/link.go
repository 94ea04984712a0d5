package stationsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const (
	writeTimeout = 2 * time.Second
	keepAlive    = 30 * time.Second
	goodbye      = 250 // milliseconds that a clean disconnect may take
)

// link is one connection to the broker. A client of the library is used for one
// connection only: its own reconnecting can report a delivery that never was.
type link struct {
	client  mqtt.Client
	lost    chan error  // one error when the connection ends by itself
	unguard func() bool // ends the hold of dial's context on the connection
}

// connect connects, once there is room at the gate, and subscribes to the station's
// commands. It ends, and leaves nothing behind, when ctx ends.
func (s *Station) connect(ctx context.Context) (*link, error) {
	l := &link{lost: make(chan error, 1), unguard: func() bool { return true }}
	receive := func(_ mqtt.Client, m mqtt.Message) { s.receive(ctx, l, m) }
	if gate := s.cfg.gate; gate != nil {
		select {
		case gate <- struct{}{}:
			defer func() { <-gate }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	dialling, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l.client = mqtt.NewClient(l.options(dialling, s.cfg))
	connecting := l.client.Connect()
	<-connecting.Done() // bounded: the end of dialling closes the connection under it
	if err := connecting.Error(); err != nil {
		l.unguard()
		return nil, fmt.Errorf("connecting: %w", err)
	}
	first := l.publish(reportTopic(s.cfg.ID), report{Uptime: s.cfg.Uptime().Milliseconds()})
	if err := errors.Join(await(dialling, "reporting", first), l.subscribe(dialling, s.cfg, receive)); err != nil {
		l.close()
		return nil, err
	}
	l.unguard()
	return l, nil
}

// await waits until a packet is acknowledged.
func await(ctx context.Context, doing string, token mqtt.Token) error {
	select {
	case <-token.Done():
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	if err := token.Error(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func (l *link) options(ctx context.Context, cfg Config) *mqtt.ClientOptions {
	return mqtt.NewClientOptions().
		AddBroker("tcp://" + cfg.Broker.Address).
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return l.open(ctx, cfg.Broker) }).
		SetClientID(cfg.ID.ClientID()).
		SetUsername(cfg.ID.ClientID()).
		SetPassword(cfg.Secret.Reveal()).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetConnectTimeout(connectTimeout).
		SetKeepAlive(keepAlive).
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
	return conn, nil
}

// errNotSubscribed is a SUBACK that refuses.
var errNotSubscribed = errors.New("the broker refuses the subscription to the station's commands")

func (l *link) subscribe(ctx context.Context, cfg Config, receive mqtt.MessageHandler) error {
	topic := commandTopic(cfg.ID)
	token := l.client.Subscribe(topic, 1, receive)
	if err := await(ctx, "subscribing", token); err != nil {
		return err
	}
	// A refusal is no error of the token (SUBACK 0x80).
	if granted, ok := token.(*mqtt.SubscribeToken); !ok || granted.Result()[topic] != 1 {
		return errNotSubscribed
	}
	return nil
}

// publish hands a message to the connection at QoS 1.
func (l *link) publish(topic string, message any) mqtt.Token {
	data, _ := json.Marshal(message) // our own messages always have a JSON
	return l.client.Publish(topic, 1, false, data)
}

// close says goodbye to the broker and ends the connection.
func (l *link) close() {
	l.unguard()
	l.client.Disconnect(goodbye)
}
