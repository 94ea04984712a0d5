package link

import (
	"context"
	"time"

	"gatehouse/internal/cloud/api"
)

// Commands and Results are what a session uses of commands.
type (
	Commands      = commands
	CommandConfig = commandConfig
	Results       = results
)

// MaxUnderWay is how many commands are carried out at once, and MaxAtStation how many of these by one station; Burst how many are looked at
// at once, and PerSecond in each second.
const (
	MaxUnderWay  = maxUnderWay
	MaxAtStation = maxAtStation
	Burst        = burst
	PerSecond    = perSecond
)

// NewCommands is newCommands.
func NewCommands(cfg CommandConfig) *Commands { return newCommands(cfg) }

// Trust, Handle and Run are trust, handle and run.
func (c *commands) Trust(ring api.Keyring) { c.trust(ring) }

func (c *commands) Handle(ctx context.Context, payload []byte, retained bool, received time.Time) {
	c.handle(ctx, payload, retained, received)
}

func (c *commands) Run(ctx context.Context) { c.run(ctx) }

// NewResults is newResults.
func NewResults() *Results { return newResults() }

// Put, Again, Next, Done and Added are those of a session.
func (r *results) Put(result api.Result)            { r.put(result) }
func (r *results) Again()                           { r.again() }
func (r *results) Next() (api.Result, uint64, bool) { return r.next() }
func (r *results) Done(token uint64)                { r.done(token) }
func (r *results) Added() <-chan struct{}           { return r.added }
