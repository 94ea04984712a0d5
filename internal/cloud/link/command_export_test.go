package link

import (
	"context"
	"sync"
	"time"

	"gatehouse/internal/cloud/api"
)

// Commands and Results are what a session uses of commands.
type (
	Commands = inbox
	Results  = results
)

// MaxUnderWay is how many commands are carried out at once.
const MaxUnderWay = maxUnderWay

// NewCommands is newCommands.
func NewCommands(cfg Config, answer func(api.Result)) Commands {
	return inbox{newCommands(cfg, answer), answer}
}

// Trust and Handle are trust and handle.
func (c *commands) Trust(ring api.Keyring) { c.trust(ring) }

func (c inbox) Handle(payload []byte, retained bool, received time.Time) {
	c.handle(payload, retained, received)
}

// Drain waits for the commands that are carried out.
func (c *commands) Drain() { c.running.Wait() }

// Run records the refusals that are held back.
func (c *commands) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { c.updates.refusals.Run(ctx, c.recordUpdate) })
	c.refusals.Run(ctx, c.record)
	both.Wait()
}

// Put and Take are put and take.
func (r *results) Put(result api.Result) { r.put(result) }
func (r *results) Take() []api.Result    { return r.take(maxResults) }

// AllowUpdates is allowUpdates.
func (c *commands) AllowUpdates(allowed bool) { c.allowUpdates(allowed) }

// The bounds of updates.
const (
	MaxUpdatesAtOnce = maxUpdatesAtOnce
	UpdateEvery      = updateEvery
)
