package machine

import (
	"time"

	"gatehouse/internal/health"
)

// State is the relation of the gateway's clock to the system's.
type State string

// The states.
const (
	Untrusted State = "unsynchronised"      // the system does not vouch for its time
	Right     State = "synchronised"        // they agree
	Slowing   State = "losing its lead"     // ahead of the system, and losing it
	Ahead     State = "ahead of the system" // too far ahead to lose it
	Doubted   State = "step not believed"   // the system is too far ahead to be believed yet
)

// check asks the system once and follows it. It reports whether the clock became
// trusted by that or lost trust, and how far it jumped forward.
func (c *Clock) check() (changed bool, jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, state := c.trusted.Load(), Untrusted
	if c.cfg.System.Synchronised() { // before the time, which may be stepped in between
		state, jump = c.follow()
	} else {
		c.heard = instant{}
	}
	c.trusted.Store(state == Right || state == Slowing || state == Untrusted && c.accepted)
	c.keepRight(state)
	if jump >= step {
		c.cfg.Logger.Info("clock stepped forward", "step", jump)
	}
	if state != c.state {
		c.cfg.Logger.Info("clock changed its state", "state", state)
		c.state = state
	}
	c.raise()
	return c.trusted.Load() != was, max(jump, 0)
}

// keepRight notes that the clock is right, or forgets when it was: a time service that
// contradicts it, or a step, ends the holdover for good.
func (c *Clock) keepRight(state State) {
	now := time.Now()
	switch {
	case c.trusted.Load():
		c.right = instant{c.cfg.System.Wall(now), now}
	case state != Untrusted || !c.holds(now):
		c.right = instant{}
	}
}

// follow moves the clock to the system's time, as far as that is believed. It returns the
// state and how far the clock jumped; negative where it is ahead.
func (c *Clock) follow() (state State, jump time.Duration) {
	ours, now := c.Now(), time.Now()
	wall := c.cfg.System.Wall(now)
	c.hear(wall, now)
	// Round strips the monotonic readings, which know of no step.
	jump = wall.Round(0).Sub(ours.Round(0))
	switch {
	case jump <= -maxSlew:
		c.sure = instant{} // the system contradicts its earlier time
		return Ahead, jump
	case !c.believes(wall, now):
		return Doubted, 0
	}
	if c.base.time.IsZero() {
		c.base = instant{wall, now}
	}
	c.sure = instant{wall, now}
	c.approach(ours, wall, now)
	if jump <= -step {
		return Slowing, jump
	}
	return Right, jump
}

// approach sets the clock to a later time, or has it lose its lead over an earlier one.
func (c *Clock) approach(ours, wall, now time.Time) {
	last := c.reading.Load().last
	if jump := wall.Round(0).Sub(ours.Round(0)); jump > 0 {
		c.reading.Store(&reading{mark: now, at: wall, last: last})
	} else {
		c.reading.Store(&reading{mark: now, at: ours, lag: -jump, last: last})
	}
}

// hear notes the time of a synchronised system. Once it has held for 24 hours, later
// steps are measured from it.
func (c *Clock) hear(wall, now time.Time) {
	if c.heard.time.IsZero() || wall.Round(0).Sub(c.heard.on(now)).Abs() >= step {
		c.stood = now
	}
	c.heard = instant{wall, now}
	if now.Sub(c.stood) >= standing {
		c.base = c.heard
	}
}

// believes reports whether the system's time is near enough to the base.
func (c *Clock) believes(wall, now time.Time) bool {
	return c.base.time.IsZero() || wall.Round(0).Sub(c.base.on(now)) <= maxStep
}

// raise raises the condition of the present state and clears the others.
func (c *Clock) raise() {
	wrong := c.state.condition()
	if c.trusted.Load() {
		wrong = health.Condition{}
	}
	for _, code := range []health.Code{health.ClockUntrusted, health.ClockAhead, health.ClockStep} {
		if code == wrong.Code {
			c.cfg.Health.Raise(wrong)
		} else {
			c.cfg.Health.Clear(code)
		}
	}
}

// condition returns what is wrong with a clock in this state; without a code nothing is.
func (s State) condition() health.Condition {
	switch s {
	case Doubted:
		return health.Condition{
			Code: health.ClockStep, Severity: health.Warning,
			Summary: "The system's clock is more than 30 days beyond the last time that was sure, and is not believed until it has held for 24 hours",
			Advice:  "Compare the date of this machine with a watch; if it is right, run: gatehouse clock accept; if not, check its time servers",
		}
	case Ahead:
		return health.Condition{
			Code: health.ClockAhead, Severity: health.Warning,
			Summary: "The gateway's clock is ahead of the system's and does not go back",
			Advice:  "Compare the date of this machine with a watch; if it is right, run: gatehouse clock reset; if not, check its time servers",
		}
	case Untrusted:
		return health.Condition{
			Code: health.ClockUntrusted, Severity: health.Notice,
			Summary: "The system does not report that its clock is right",
			Advice:  "Give this machine a time server that it can reach (timedatectl shows the state); where there is none, compare its date with a watch and run: gatehouse clock accept. Until then records are marked, cloud commands are refused, and hours may be judged by a wrong time",
		}
	default:
		return health.Condition{}
	}
}
