package link

import (
	"context"

	"gatehouse/internal/cloud/mqttclient"
)

// connection is what a session speaks through: a [mqttclient.Conn].
type connection interface {
	// Publish hands a message over; order is kept.
	Publish(m mqttclient.Message) delivery
	// Lost is closed when the connection has ended by itself, and Err says why.
	Lost() <-chan struct{}
	Err() error
	// Close says goodbye and ends the connection, Drop ends it so that the broker
	// publishes the will; each within its own time.
	Close()
	Drop()
}

// delivery is a message on its way: a [mqttclient.Delivery].
type delivery interface {
	// Done is closed when the broker has acknowledged the message, or never will; then
	// Err is nil in the first case alone.
	Done() <-chan struct{}
	Err() error
}

// dialer makes a connection.
type dialer func(ctx context.Context, cfg mqttclient.Config) (connection, error)

func dial(ctx context.Context, cfg mqttclient.Config) (connection, error) {
	conn, err := mqttclient.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return mqttConnection{conn}, nil
}

type mqttConnection struct{ *mqttclient.Conn }

func (c mqttConnection) Publish(m mqttclient.Message) delivery { return c.Conn.Publish(m) }
