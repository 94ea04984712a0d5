package machine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/health"
)

const (
	// pollEvery is how often the system is asked whether its clock is
	// synchronised.
	pollEvery = 10 * time.Second

	// saveEvery is how often the time floor goes to disk: seldom, for the sake of
	// memory cards. A board without a battery-backed clock starts at most so much
	// behind.
	saveEvery = 10 * time.Minute

	// saveTimeout and lastSaveTimeout bound writing the floor, while running and
	// at the end.
	saveTimeout     = 5 * time.Second
	lastSaveTimeout = 800 * time.Millisecond

	// slew is by what part the clock runs slower while it is ahead of the
	// system's: a second takes 100 seconds to lose.
	slew = 100

	// maxSlew is the most that is worth losing so, in some 17 hours. A clock that
	// is further ahead was set by a wrong time before.
	maxSlew = 10 * time.Minute

	// step is the least jump that is worth mentioning.
	step = time.Second

	// maxStep is how far the system's time may be beyond the base, and standing how
	// long a time that is further ahead must have held before it is believed (contract,
	// section 4, "The clock").
	maxStep  = 30 * 24 * time.Hour
	standing = 24 * time.Hour

	// holdover is how long a clock that was right vouches for itself. The kernel keeps the
	// rate that the time service has set, so that a board is off by a second or two then.
	holdover = 72 * time.Hour
)

// ClockConfig is what [NewClock] needs.
type ClockConfig struct {
	Floor  time.Time                              // what Save was last given, or a trusted record's time; zero at first start
	Save   func(context.Context, time.Time) error // keeps the floor; one call at a time
	Logger *slog.Logger
	Health *health.Registry // receives clock-untrusted, clock-ahead and clock-step
	System System           // nil: this machine
}

// System is the machine's source of time. Safe for concurrent use.
type System interface {
	// Wall returns the system's time at now, which is a reading of [time.Now].
	Wall(now time.Time) time.Time
	// Synchronised reports whether the system considers its time right.
	Synchronised() bool
}

// Clock is the gateway's clock (contract, section 4, "The clock"); it satisfies
// [site.Clock]. Safe for concurrent use.
//
// It starts at the later of the system's time and the floor, and from there follows the
// monotonic clock alone, so that no "date -s" moves it. While the system reports that it
// is synchronised, the clock is held to the system's time: a system ahead is followed
// at once, in one step forward. A system behind is never followed back: the clock runs
// one percent slower until they meet. If it is ahead by more than ten minutes, the
// floor or the system must be wrong, and nothing here can decide which: the clock
// continues from the floor, counts as untrusted, and raises the condition
// clock-ahead.
//
// Time services of a local network are not authenticated, so one answer is not enough
// for a large step. A system's time more than 30 days beyond the base is not believed
// until it has held for 24 hours: the clock continues from where it is, untrusted, and
// raises the condition clock-step. The base is the floor at the start, later the
// last time that held for 24 hours, so that many small steps reach no further than one.
// Without a floor, at the first start ever, the first time of a synchronised system is
// believed. [Clock.Accept] and [Clock.Reset] are the administrator's two ways out.
//
// Its times carry a monotonic reading that agrees with that of [time.Now], except
// after a start from the floor, until the first step: then they carry none. So
// compare them with each other, and make timers and deadlines of what waits within
// this process from time.Now.
type Clock struct {
	cfg    ClockConfig
	onStep func(time.Duration)

	saving sync.Mutex // one write of the floor at a time; guards floor. Taken before mu
	floor  time.Time  // the newest that was saved

	mu       sync.Mutex // guards what follows; Now and Trusted never wait for it
	sure     instant    // the system's time as of the last check that found it right, else the floor; zero: none
	base     instant    // what a step is measured from; zero: none
	heard    instant    // the system's time as of the last check while it was synchronised; zero: it was not
	stood    time.Time  // the moment of the monotonic clock since when the system's time has held
	right    instant    // the system's time as of the last check that left the clock trusted; zero: none in this run, or contradicted since
	state    State      // as of the last check
	accepted bool       // an administrator has confirmed the system's time in this run

	reading atomic.Pointer[reading]
	trusted atomic.Bool
}

// instant is a time and the moment of the monotonic clock at which it was.
type instant struct{ time, at time.Time }

// on returns the time that it is at a later moment.
func (i instant) on(now time.Time) time.Time { return i.time.Round(0).Add(now.Sub(i.at)) }

// reading ties the gateway's time to the monotonic clock.
type reading struct {
	mark time.Time     // a moment of the monotonic clock
	at   time.Time     // the gateway's time at mark
	lag  time.Duration // what is to be lost from there on
	last *atomic.Int64 // the latest time that was returned, in nanoseconds since 1970; shared by all readings until a reset
}

// time returns the gateway's time now.
func (r *reading) time() time.Time {
	elapsed := time.Since(r.mark)
	return r.at.Add(elapsed - min(elapsed/slew, r.lag))
}

// NewClock reads the system's clock and starts from there or from the floor,
// whichever is later; from the floor too where the system is more than 30 days ahead
// of it. It fails only on an incomplete configuration.
func NewClock(cfg ClockConfig) (*Clock, error) {
	if cfg.Save == nil || cfg.Logger == nil || cfg.Health == nil {
		return nil, errors.New("a clock needs a way to save its floor, a logger and a health registry")
	}
	if cfg.System == nil {
		cfg.System = kernel{}
	}
	now := time.Now()
	c := &Clock{cfg: cfg, floor: cfg.Floor, onStep: func(time.Duration) {}}
	start := cfg.System.Wall(now)
	if !cfg.Floor.IsZero() {
		c.sure = instant{cfg.Floor, now}
		c.base = c.sure
		if ahead := start.Round(0).Sub(cfg.Floor); ahead < 0 || ahead > maxStep {
			start = cfg.Floor
		}
	}
	c.reading.Store(&reading{mark: now, at: start, last: new(atomic.Int64)})
	c.check()
	return c, nil
}

// OnStep has f called whenever the clock has become trusted, and when Run begins
// with a trusted one, with the length of the jump forward that came with it: 0 or
// more. Call it before Run, once; f runs in the goroutine of Run, Accept or Reset, and
// must be safe for concurrent use.
func (c *Clock) OnStep(f func(step time.Duration)) { c.onStep = f }

// Now returns the time. No call returns less than an earlier one did, in whatever
// goroutine, nor less than the floor, [Clock.Reset] apart. Its time zone is not set:
// UTC would cost the monotonic reading.
func (c *Clock) Now() time.Time {
	r := c.reading.Load()
	t := r.time()
	nanos := t.UnixNano()
	for {
		last := r.last.Load()
		if nanos < last {
			return t.Add(time.Duration(last - nanos))
		}
		if r.last.CompareAndSwap(last, nanos) {
			return t
		}
	}
}

// Trusted reports whether the time is vouched for: the system reports that its clock is
// synchronised, and this clock agrees with it and believes it; or an administrator has
// accepted the system's time in this run and no time service contradicts.
func (c *Clock) Trusted() bool { return c.trusted.Load() }

// Holdover reports whether the time is right to a few seconds: the clock was trusted within
// 72 hours in this run, and the system's time has not been stepped since. A machine that was
// suspended counts as stepped, until the time is known again.
func (c *Clock) Holdover() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return c.holds(now) && now.Sub(c.right.at) <= holdover
}

// holds reports whether the system's time has gone on from the right one without a step.
func (c *Clock) holds(now time.Time) bool {
	return !c.right.time.IsZero() && c.cfg.System.Wall(now).Round(0).Sub(c.right.on(now)).Abs() < step
}

// Run watches the system's clock and keeps the floor on disk until ctx ends. It
// never fails; call it once. A disk that does not answer delays only its end.
func (c *Clock) Run(ctx context.Context) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	changes := make(chan struct{}, 1)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { c.keepFloor(ctx, changes) })
	if c.Trusted() {
		c.onStep(0)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			changed, jump := c.check()
			if changed && c.Trusted() {
				c.onStep(jump)
			}
			if changed { // also where it lost trust: nothing later is sure
				select {
				case changes <- struct{}{}:
				default: // it is about to be saved
				}
			}
		}
	}
}

// keepFloor saves the floor at once, every ten minutes, after each change and at the end
// of ctx.
func (c *Clock) keepFloor(ctx context.Context, changes <-chan struct{}) {
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	for {
		c.save(ctx, saveTimeout)
		select {
		case <-ctx.Done():
			c.save(context.WithoutCancel(ctx), lastSaveTimeout)
			return
		case <-save.C:
		case <-changes:
		}
	}
}

// save keeps the time floor, if it is later than what is kept: the last time that was
// sure and what has passed since by the monotonic clock, which may be slow but is not
// set. So time continues over the restarts of a board that no time server reaches, and
// what has expired there stays expired. The system's time of right now need not be
// sure: it may have been set since the last check. Without the floor the next start may
// read an earlier time, no worse: so a failure is logged and the next turn tries again.
func (c *Clock) save(ctx context.Context, timeout time.Duration) {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	from := c.sure
	c.mu.Unlock()
	if from.time.IsZero() {
		return
	}
	elapsed := time.Since(from.at)
	sure := from.time.UTC().Round(0).Add(elapsed - elapsed/slew)
	if !sure.After(c.floor) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.cfg.Save(ctx, sure); err != nil {
		c.cfg.Logger.Warn("the time floor was not saved", "error", err)
		return
	}
	c.floor = sure
}
