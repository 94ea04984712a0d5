package client

import "context"

// Explain words an error of the connection.
func (c *Client) Explain(ctx context.Context, err error) error { return c.explain(ctx, err) }
