package link

import (
	"context"

	"gatehouse/internal/cloud/mqttclient"
)

// Connection is what tests replace.
type Connection = connection

// DialBy has the link make its connections by dial.
func (l *Link) DialBy(dial func(ctx context.Context, cfg mqttclient.Config) (Connection, error)) {
	l.dial = dial
}
