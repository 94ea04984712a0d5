package host

import (
	"context"
	"errors"
	"log/slog"
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

	// maxSlew is the most that is worth losing so, in some 17 hours. Whoever is
	// further ahead was told a wrong time before.
	maxSlew = 10 * time.Minute

	// step is the least jump that is worth mentioning.
	step = time.Second
)

// ClockConfig is what [NewClock] needs.
type ClockConfig struct {
	Floor  time.Time                              // what Save was last given, or a trusted record's time; zero at first start
	Save   func(context.Context, time.Time) error // keeps the floor; called from Run only
	Logger *slog.Logger
	Health *health.Registry // told clock-untrusted and clock-ahead
	System System           // nil: this machine
}

// System is what the machine says of the time.
type System interface {
	// Wall gives the system's time at now, which is a reading of [time.Now].
	Wall(now time.Time) time.Time
	// Synchronised reports whether the system holds its time for right.
	Synchronised() bool
}

// Clock is the gateway's clock (contract, section 4, "The clock"); it satisfies
// [site.Clock]. Safe for concurrent use.
//
// It starts at the later of the system's time and the floor, and from there
// follows the monotonic clock alone, so that nobody's "date -s" moves it. While
// the system says that it is synchronised, the clock is held to the system's time:
// a system ahead is followed at once, in one step forward. A system behind is
// never followed back: the clock runs one percent slower until they meet. If it is
// ahead by more than ten minutes, the floor or the system must be wrong, and
// nobody here can tell which: the clock goes on from the floor, counts as
// untrusted, and says so as the condition clock-ahead.
//
// Its times carry a monotonic reading that agrees with that of [time.Now], except
// after a start from the floor, until the first step: then they carry none. So
// compare them with each other, and make timers and deadlines of what waits within
// this process from time.Now.
type Clock struct {
	cfg    ClockConfig
	onStep func(time.Duration)
	floor  time.Time // the newest that was saved; only Run touches it
	sure   time.Time // the system's time as of the last check that found it right, else the floor; only Run touches it
	sureAt time.Time // the moment of the monotonic clock at which it was sure; only Run touches it
	state  state     // as of the last check; only Run touches it

	reading atomic.Pointer[reading]
	told    atomic.Int64 // the latest time told, in nanoseconds since 1970
	trusted atomic.Bool
}

// reading ties the gateway's time to the monotonic clock.
type reading struct {
	mark time.Time     // a moment of the monotonic clock
	at   time.Time     // the gateway's time at mark
	lag  time.Duration // what is to be lost from there on
}

// time gives the gateway's time now.
func (r *reading) time() time.Time {
	elapsed := time.Since(r.mark)
	return r.at.Add(elapsed - min(elapsed/slew, r.lag))
}

// NewClock reads the system's clock and starts from there or from the floor,
// whichever is later. It fails only on an incomplete configuration.
func NewClock(cfg ClockConfig) (*Clock, error) {
	if cfg.Save == nil || cfg.Logger == nil || cfg.Health == nil {
		return nil, errors.New("a clock needs a way to save its floor, a logger and a health registry")
	}
	if cfg.System == nil {
		cfg.System = machine{}
	}
	now := time.Now()
	c := &Clock{cfg: cfg, floor: cfg.Floor, sure: cfg.Floor, sureAt: now, onStep: func(time.Duration) {}}
	start := cfg.System.Wall(now)
	if cfg.Floor.After(start) {
		start = cfg.Floor
	}
	c.reading.Store(&reading{mark: now, at: start})
	c.check()
	return c, nil
}

// OnStep has f called whenever the clock has become trusted, and when Run begins
// with a trusted one, with the length of the jump forward that came with it: 0 or
// more. Call it before Run, once; f runs in Run's goroutine.
func (c *Clock) OnStep(f func(step time.Duration)) { c.onStep = f }

// Now gives the time. No call gives less than an earlier one gave, in whatever
// goroutine, nor less than the floor. It stands in any time zone: UTC would cost the
// monotonic reading.
func (c *Clock) Now() time.Time {
	t := c.reading.Load().time()
	nanos := t.UnixNano()
	for {
		told := c.told.Load()
		if nanos < told {
			return t.Add(time.Duration(told - nanos))
		}
		if c.told.CompareAndSwap(told, nanos) {
			return t
		}
	}
}

// Trusted reports whether the system says that its clock is synchronised, and
// this clock agrees with it.
func (c *Clock) Trusted() bool { return c.trusted.Load() }

// Run watches the system's clock and keeps the floor on disk until ctx ends. It
// never fails; call it once.
func (c *Clock) Run(ctx context.Context) error {
	poll, save := time.NewTicker(pollEvery), time.NewTicker(saveEvery)
	defer poll.Stop()
	defer save.Stop()
	if c.Trusted() {
		c.onStep(0)
	}
	c.save(ctx, saveTimeout)
	for {
		select {
		case <-ctx.Done():
			c.save(context.WithoutCancel(ctx), lastSaveTimeout)
			return nil
		case <-save.C:
			c.save(ctx, saveTimeout)
		case <-poll.C:
			changed, jump := c.check()
			if changed && c.Trusted() {
				c.onStep(jump)
			}
			if changed { // also where it lost trust: nothing later is sure
				c.save(ctx, saveTimeout)
			}
		}
	}
}

// check asks the system once and follows it. It reports whether the clock became
// trusted by that or lost trust, and how far it jumped forward.
func (c *Clock) check() (changed bool, jump time.Duration) {
	now := untrusted
	var wall time.Time
	if c.cfg.System.Synchronised() { // before the time, which may be stepped in between
		wall, jump = c.follow()
		now = judge(jump)
	}
	trusted := now == right || now == slowing
	switch {
	case trusted:
		c.sure, c.sureAt = wall, time.Now()
	case now == ahead:
		c.sure = time.Time{} // the system takes back what it said before
	}
	was := c.trusted.Swap(trusted)
	if jump >= step {
		c.cfg.Logger.Info("clock stepped forward", "step", jump)
	}
	if now != c.state {
		c.cfg.Logger.Info("clock changed its state", "state", now, "ahead", -jump)
		c.state = now
		c.tell()
	}
	return trusted != was, max(jump, 0)
}

// state is how the clock stands to the system's.
type state string

const (
	untrusted state = "untrusted"           // the system does not vouch for its time
	right     state = "synchronised"        // they agree
	slowing   state = "losing its lead"     // ahead, and losing it
	ahead     state = "ahead of the system" // too far ahead to lose it
)

// judge gives the state of a clock from which the system's is jump ahead.
func judge(jump time.Duration) state {
	switch {
	case jump <= -maxSlew:
		return ahead
	case jump <= -step:
		return slowing
	default:
		return right
	}
}

// follow moves the clock towards the system's time, and gives that and how far it was
// ahead of the clock; negative when behind.
func (c *Clock) follow() (wall time.Time, jump time.Duration) {
	ours, now := c.Now(), time.Now()
	wall = c.cfg.System.Wall(now)
	// Round strips the monotonic readings, which know of no step.
	jump = wall.Round(0).Sub(ours.Round(0))
	switch {
	case jump > 0:
		c.reading.Store(&reading{mark: now, at: wall})
	case jump > -maxSlew:
		c.reading.Store(&reading{mark: now, at: ours, lag: -jump})
	}
	return wall, jump
}

// tell raises the condition of the present state and clears the others.
func (c *Clock) tell() {
	c.cfg.Health.Clear(health.ClockUntrusted)
	c.cfg.Health.Clear(health.ClockAhead)
	switch c.state {
	case untrusted:
		c.cfg.Health.Raise(health.Condition{
			Code: health.ClockUntrusted, Severity: health.Notice,
			Summary: "The system does not say that its clock is right",
			Advice:  "Give this machine a time server that it can reach (timedatectl shows the state); until then records are marked, and hours may be judged by a wrong time",
		})
	case ahead:
		c.cfg.Health.Raise(health.Condition{
			Code: health.ClockAhead, Severity: health.Warning,
			Summary: "The gateway's clock is ahead of the system's and does not go back",
			Advice:  "Check the date and the time servers of this machine; if they are right now and were wrong before, the two meet when that date is reached",
		})
	}
}

// save keeps the time floor, if it is later than what is kept: the last time that was
// sure and what has passed since by the monotonic clock, which may be slow but is not
// set. So time goes on over the restarts of a board that nobody tells the time, and what
// has expired there stays so. The system's time of right now need not be sure: somebody
// may have set it since the last check. Without the floor the next start may read an
// earlier time, no worse: so a failure is logged and the next turn tries again.
func (c *Clock) save(ctx context.Context, timeout time.Duration) {
	if c.sure.IsZero() {
		return
	}
	elapsed := time.Since(c.sureAt)
	sure := c.sure.UTC().Round(0).Add(elapsed - elapsed/slew)
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
