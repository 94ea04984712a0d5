package cloudlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/cloudcommand"
	"gatehouse/internal/cloudwire"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/unlock"
)

const (
	// perSecond commands are looked at, and burst at once; more of them wait, and with them
	// the connection. Whether a command is signed costs 1.6 ms on the smallest board: who
	// may publish, or is the broker, takes half of its processor and no more. Six commands a
	// second to each of 50 doors do not wait.
	perSecond = 300
	burst     = 600
	// Records of refused commands: at most refusalBurst at once and one more per
	// refusalEvery, so that whoever may publish fills no journal.
	refusalBurst = 60
	refusalEvery = 10 * time.Second
	// tidyEvery is how often what the disk did not take is tried again.
	tidyEvery = 10 * time.Second
	// seePatience is how long the end of the gateway waits for commands that are being
	// carried out.
	seePatience = 4 * time.Second
)

// Unlocker opens doors; package unlock satisfies it. Safe for concurrent use.
type Unlocker interface {
	// Unlock opens a lock, or says why not, within the command's deadline; once it has
	// begun it is seen through. NotFound for a lock that there is not.
	Unlock(ctx context.Context, req unlock.Request) (unlock.Answer, error)
}

// commandConfig is what commands need.
type commandConfig struct {
	Gateway  site.GatewayID
	Unlocker Unlocker
	Store    CommandStore
	State    func(site.StationID) (site.StationState, bool) // of an enrolled station; quick
	Record   func(site.Record)                              // writes it soon; never blocks
	Answer   func(cloudwire.Result)                         // sends it soon; never blocks
	Clock    site.Clock
	Logger   *slog.Logger
	Metrics  *metric.Registry
}

func (l *Link) commandConfig() commandConfig {
	return commandConfig{
		Gateway: l.Gateway, Unlocker: l.Unlocker, Store: l.Store, State: l.Stations.State,
		Record: l.Journal.AppendLater, Answer: l.results.put, Clock: l.Clock, Logger: l.Logger, Metrics: l.Metrics,
	}
}

// commands takes what comes in on the topic of commands, carries each command out at
// most once, and answers each. Its methods are safe for concurrent use.
type commands struct {
	commandConfig
	ring    atomic.Pointer[cloudcommand.Keyring] // the keys that are trusted now
	taken   *taken
	queues  queues
	since   *restored
	pace    *rate.Limiter // of all that come
	noting  *rate.Limiter // records of refusals
	leftOut atomic.Int64  // of these, since the last
}

// newCommands reads which commands were taken before, so that none of them is carried
// out again. Those that the end of the gateway interrupted are answered now. Nobody is
// trusted before trust is called.
func newCommands(ctx context.Context, cfg commandConfig) (*commands, error) {
	c := &commands{
		commandConfig: cfg, pace: rate.NewLimiter(perSecond, burst), noting: rate.NewLimiter(rate.Every(refusalEvery), refusalBurst),
		since: &restored{store: cfg.Store, clock: cfg.Clock, log: cfg.Logger},
	}
	c.taken = newTaken(cfg.Store, cfg.Clock, cfg.Logger, c.since)
	c.trust(cloudcommand.Keyring{})
	interrupted, err := c.taken.load(ctx)
	if err == nil {
		err = c.since.load(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("reading which commands the cloud sent: %w", err)
	}
	for _, id := range interrupted {
		c.end(id, site.Unresolved, cloudwire.Result{})
	}
	return c, nil
}

// trust replaces the keys. One that is no longer among them opens nothing from now on,
// not even by a command that was verified already and has not left.
func (c *commands) trust(ring cloudcommand.Keyring) { c.ring.Store(&ring) }

// run keeps the memory of commands in order until ctx ends. Then it waits for those that
// are being carried out, for a while, and takes no others meanwhile.
func (c *commands) run(ctx context.Context) {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		c.tidy(ctx)
		if n := c.leftOut.Load(); n > 0 && c.noting.Allow() {
			c.Record(refusalRecord(site.Facts{Detail: "more refusals, not recorded one by one", Count: int(n)}))
			c.leftOut.Add(-n)
		}
		select {
		case <-ctx.Done():
			c.finish(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
		}
	}
}

// tidy keeps what is not on disk yet. It does not end with the gateway, which waits for
// it: what is broken off looks like a disk that fails.
func (c *commands) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takePatience)
	defer cancel()
	if c.since.settle() {
		_ = c.taken.ask(ctx, c.since.save) // tried again soon
	}
	c.taken.tidy(ctx)
}

// finish sees through what has begun.
func (c *commands) finish(ctx context.Context) {
	seeing, cancel := context.WithTimeout(ctx, seePatience)
	defer cancel()
	c.taken.drain(seeing)
	c.taken.tidy(ctx)
}

// refused is a command that is not carried out.
type refused struct {
	cloudcommand.Refusal
	cmd   cloudcommand.Command // what it says, if Verified; else zero
	first *cloudwire.First     // of a repeated one
}

// receive is handle once it is the message's turn. As many as the connection has with its
// receiver wait here, less than half a second; the others wait where they are, and what
// comes down between them, such as acknowledgements, comes as quickly as they do.
func (c *commands) receive(ctx context.Context, payload []byte, retained bool, received time.Time) {
	if c.pace.Wait(ctx) == nil {
		c.handle(ctx, payload, retained, received)
	}
}

// handle takes one message. It returns when the command is refused or its id is taken;
// how it is carried out, which takes as long as the station does, is answered later, and
// seen through when ctx ends.
func (c *commands) handle(ctx context.Context, payload []byte, retained bool, received time.Time) {
	if ctx.Err() != nil {
		return
	}
	ring := c.ring.Load()
	cmd, err := ring.Verify(payload, c.Gateway, c.Clock.Now())
	if err != nil {
		c.refuse(refused{Refusal: refusalOf(err)})
		return
	}
	if reason, message := c.judge(cmd, retained); reason != "" {
		c.refuse(newRefused(cmd, reason, message))
		return
	}
	switch first, reason := c.taken.take(ctx, cmd.ID, cmd.Expires); reason {
	case "":
		key, _ := ring.Key(cmd.KeyID)
		go c.carryOut(context.WithoutCancel(ctx), cmd, key, received) // at most maxUnderWay; run waits for them
	case cloudcommand.Repeated:
		r := newRefused(cmd, reason, "a command with this jti came before; sign a new one for each opening")
		r.first = &cloudwire.First{Outcome: first.Outcome, Time: site.At(first.Ended)}
		c.refuse(r)
	default:
		c.refuse(newRefused(cmd, reason, "too many commands came in a short time; try again a little later"))
	}
}

// refusalOf gives the refusal that Verify's error is.
func refusalOf(err error) cloudcommand.Refusal {
	if refusal, ok := errors.AsType[*cloudcommand.Refusal](err); ok {
		return *refusal
	}
	return cloudcommand.Refusal{Reason: cloudcommand.Malformed, Message: err.Error()}
}

func newRefused(cmd cloudcommand.Command, reason cloudcommand.Reason, message string) refused {
	return refused{cmd: cmd, Refusal: cloudcommand.Refusal{Reason: reason, ID: cmd.ID, KeyID: cmd.KeyID, Verified: true, Message: message}}
}

// judge finds what the token itself does not tell. To a trusted signer a station that
// there is not and a lock that it has not are told apart.
func (c *commands) judge(cmd cloudcommand.Command, retained bool) (cloudcommand.Reason, string) {
	if retained {
		return cloudcommand.Retained, "the command lay at the broker for whoever would come; publish commands without the retain flag"
	}
	if message := c.since.admits(cmd.IssuedAt); message != "" {
		return cloudcommand.NotPermitted, message
	}
	state, enrolled := c.State(cmd.Station)
	if !enrolled {
		return cloudcommand.UnknownStation, "there is no station " + cmd.Station.String()
	}
	for _, lock := range state.Locks {
		if lock.ID == cmd.Lock {
			return "", ""
		}
	}
	return cloudcommand.UnknownLock, "station " + cmd.Station.String() + " has no " + cmd.Lock.String()
}

// refuse counts a command that is not carried out, notes it and answers it: who has the
// answer finds the record.
func (c *commands) refuse(r refused) {
	c.Metrics.Refused("cloud-" + string(r.Reason))
	c.note(r)
	c.Answer(cloudwire.Result{
		ID: r.ID, Outcome: site.Refused, Time: site.At(c.Clock.Now()),
		Reason: string(r.Reason), Message: r.Message, First: r.first,
	})
}

// note records a refusal, as far as the rate allows.
func (c *commands) note(r refused) {
	if !c.noting.Allow() {
		c.leftOut.Add(1)
		return
	}
	facts := site.Facts{By: r.cmd.Actor, Station: r.cmd.Station, JTI: r.ID, Detail: string(r.Reason), Count: int(c.leftOut.Swap(0))}
	if r.cmd.Lock != 0 {
		facts.Lock = r.cmd.Lock.String()
	}
	c.Record(refusalRecord(facts))
	c.Logger.Warn("cloud command refused", "reason", r.Reason, "why", r.Message, "jti", r.ID, "key", r.KeyID, "signed", r.Verified)
}

func refusalRecord(facts site.Facts) site.Record {
	facts.Origin, facts.Outcome = site.Cloud, site.Refused
	return site.Record{Kind: site.KindUnlock, Facts: facts}
}

// carryOut carries out a command whose id is taken, after those of the same station, and
// gives its place back. What goes wrong with one command ends no other.
func (c *commands) carryOut(ctx context.Context, cmd cloudcommand.Command, key cloudcommand.Key, received time.Time) {
	defer c.taken.leave()
	defer func() {
		if broken := recover(); broken != nil {
			c.Logger.Error("carrying out a cloud command broke down", "jti", cmd.ID, "panic", broken, "stack", string(debug.Stack()))
			c.end(cmd.ID, site.Unresolved, cloudwire.Result{})
		}
	}()
	defer c.queues.enter(cmd.Station, cmd.Expires.Sub(c.Clock.Now()))()
	if message := c.since.admits(cmd.IssuedAt); message != "" { // its id was forgotten since it was judged
		c.forbid(cmd, unlock.Answer{}, message)
		return
	}
	c.open(ctx, cmd, key, received)
}

func (c *commands) open(ctx context.Context, cmd cloudcommand.Command, key cloudcommand.Key, received time.Time) {
	var withdrawn atomic.Bool
	answer, err := c.Unlocker.Unlock(ctx, unlock.Request{
		Actor: site.Actor{Origin: site.Cloud, Name: cmd.Actor}, Station: cmd.Station, Lock: cmd.Lock,
		WaitResult: true, Accepted: received, Until: cmd.Expires, JTI: cmd.ID,
		MayLeave: func() bool {
			trusted := c.ring.Load().Trusts(key)
			withdrawn.Store(!trusted)
			return trusted
		},
	})
	switch {
	case withdrawn.Load():
		c.forbid(cmd, answer, "the key that signed it is no longer trusted")
	case err != nil:
		c.forbid(cmd, answer, "the station or the lock was removed")
	default:
		c.end(cmd.ID, answer.Outcome, cloudwire.Result{Command: answer.Command})
	}
}

// forbid ends a command that lost the right to be carried out on its way. Where it got
// as far as the unlock, its records are there already.
func (c *commands) forbid(cmd cloudcommand.Command, answer unlock.Answer, message string) {
	const reason = cloudcommand.NotPermitted
	c.Metrics.Refused("cloud-" + string(reason))
	if answer.Command == "" {
		c.Record(refusalRecord(site.Facts{By: cmd.Actor, Station: cmd.Station, Lock: cmd.Lock.String(), JTI: cmd.ID, Detail: string(reason)}))
	}
	c.end(cmd.ID, site.Refused, cloudwire.Result{Command: answer.Command, Reason: string(reason), Message: message})
}

// end answers a command that was taken and keeps how it ended. Who has the answer and
// repeats the command is told the same.
func (c *commands) end(id string, outcome site.Outcome, result cloudwire.Result) {
	now := c.Clock.Now()
	result.ID, result.Outcome, result.Time = id, outcome, site.At(now)
	keep := c.taken.end(id, outcome, now)
	c.Answer(result)
	keep()
}
