package cloudtail

import (
	"context"

	"gatehouse/internal/cloud/mqttclient"
)

// Connection is what a test stands in for.
type Connection = connection

// RunBy is [Run] over connections that dial makes.
func RunBy(ctx context.Context, cfg Config, dial func(ctx context.Context, cfg mqttclient.Config) (Connection, error)) error {
	t, err := newTail(cfg)
	if err != nil {
		return err
	}
	t.dial = dial
	return t.run(ctx)
}
