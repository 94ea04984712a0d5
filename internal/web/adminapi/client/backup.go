package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// backupTimeout is how long a backup may take as a whole.
const backupTimeout = time.Hour

// Backup returns the data of the gateway as an archive in clear text (package backup):
// encrypt it before it touches a disk. Its reader finds out whether it is whole. The
// caller closes it. Errors: [fault.Throttled] while another is taken,
// [fault.Unavailable]; those of reading have the same kinds.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	limited, cancel := context.WithTimeout(ctx, backupTimeout)
	resp, err := c.send(limited, http.MethodGet, "/backup", nil) //nolint:bodyclose // given closes it
	if err != nil {
		cancel()
		return nil, c.explain(ctx, err)
	}
	return &given{ctx: ctx, cancel: cancel, client: c, body: resp.Body}, nil
}

// given is an answer that is read piece by piece.
type given struct {
	ctx    context.Context // the caller's, whose end is no fault of the gateway
	cancel context.CancelFunc
	client *Client
	body   io.ReadCloser
}

func (g *given) Read(p []byte) (int, error) {
	n, err := g.body.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, g.client.explain(g.ctx, fmt.Errorf("reading the gateway's answer: %w", err))
}

func (g *given) Close() error {
	g.cancel()
	return g.body.Close()
}
