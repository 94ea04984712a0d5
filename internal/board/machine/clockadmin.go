package machine

import (
	"context"
	"sync/atomic"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Status returns the state of the clock, without its floor.
func (c *Clock) Status() site.ClockReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := site.ClockReport{
		ClockStatus: site.ClockStatus{Now: site.At(c.Now()), Trusted: c.trusted.Load()},
		State:       string(c.state), Accepted: c.accepted, System: site.At(c.cfg.System.Wall(now)), Synchronised: c.cfg.System.Synchronised(),
	}
	if c.state == Doubted {
		s.Believed = site.At(s.System.Add(standing - now.Sub(c.stood)))
	}
	if !s.Trusted {
		wrong := c.state.condition()
		s.Why, s.Advice = wrong.Summary, wrong.Advice
	}
	return s
}

// System returns the system's own time, believed or not, and whether the system is
// synchronised.
func (c *Clock) System() (now time.Time, synchronised bool) {
	synchronised = c.cfg.System.Synchronised()
	return c.cfg.System.Wall(time.Now()), synchronised
}

// Accept accepts the system's present time because an administrator vouches for it: the
// clock steps forward to it however far that is, and is trusted until this run of the
// process ends, even without a time service. Conflict where the clock is too far ahead
// of the system's to follow it: only [Clock.Reset] goes back.
func (c *Clock) Accept(ctx context.Context) (jump time.Duration, err error) {
	c.mu.Lock()
	ours, now := c.Now(), time.Now()
	wall := c.cfg.System.Wall(now)
	jump = wall.Round(0).Sub(ours.Round(0))
	if jump <= -maxSlew {
		c.mu.Unlock()
		return 0, fault.New(fault.Conflict, "The gateway's clock is ahead of the system's; if the system's date is right, run: gatehouse clock reset")
	}
	was := c.trusted.Load()
	c.base, c.sure, c.accepted = instant{wall, now}, instant{wall, now}, true
	c.approach(ours, wall, now)
	c.mu.Unlock()
	c.check()
	if !was && c.Trusted() {
		c.onStep(max(jump, 0))
	}
	c.save(ctx, saveTimeout)
	return jump, nil
}

// Reset sets the clock back to the system's present time, because an administrator states
// that a wrong time has raised the floor. It is the one way back, for the clock and the
// floor alike: lower must durably set the floor to the time that it is given. While the
// floor cannot be lowered nothing changes, and its error is returned. Conflict where the
// clock is not ahead of the system's.
func (c *Clock) Reset(ctx context.Context, lower func(ctx context.Context, floor, was time.Time) error) error {
	if err := c.reset(ctx, lower); err != nil {
		return err
	}
	if c.Trusted() {
		c.onStep(0)
	}
	return nil
}

func (c *Clock) reset(ctx context.Context, lower func(ctx context.Context, floor, was time.Time) error) error {
	c.saving.Lock() // what was sure until now must not be saved after this
	defer c.saving.Unlock()
	wall, was := c.cfg.System.Wall(time.Now()).UTC().Round(0), c.Now().UTC().Round(0)
	if was.Sub(wall) < step {
		return fault.New(fault.Conflict, "The gateway's clock is not ahead of the system's: there is nothing to reset; set the date of this machine first (timedatectl)")
	}
	c.trusted.Store(false) // no record of the wrong time may raise the floor again
	if err := lower(ctx, wall, was); err != nil {
		c.check()
		return err
	}
	c.floor = wall
	c.restart()
	c.check()
	return nil
}

// restart sets the clock to the system's time, as a first start does.
func (c *Clock) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	from := instant{c.cfg.System.Wall(now), now}
	c.reading.Store(&reading{mark: now, at: from.time, last: new(atomic.Int64)})
	c.sure, c.base, c.heard, c.right, c.accepted = from, from, instant{}, instant{}, false
}
