package link

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// maxUnderWay bounds the commands that are carried out at once.
	maxUnderWay = 256
	// maxApart bounds the refusals that are recorded each for itself in a minute: no client of
	// the broker fills the journal, not even one with the tokens of years.
	maxApart = 64
)

// Unlocker opens doors; package unlock satisfies it. Safe for concurrent use.
type Unlocker interface {
	// Claim claims the id of a command that is valid until then, before Unlock is
	// called with it. It does not block. Conflict for an id that was claimed before,
	// also by an earlier run of the process, with the answer so far; Throttled when
	// none can be claimed now.
	Claim(id string, until time.Time) (unlock.Answer, error)
	// Interrupted returns the ids of commands whose outcome will never be known.
	Interrupted() []string
	// Unlock opens a lock within the command's deadline and returns the outcome; once it
	// has begun it is completed. NotFound for a lock that does not exist; Unavailable when
	// its record cannot be made durable: nothing was sent, and its id is free again.
	Unlock(ctx context.Context, req unlock.Request) (unlock.Answer, error)
	// Once carries out a command that opens no door, whose id is claimed, by calling carry;
	// its id is free again if carry has not done anything. Conflict for an id that is not
	// claimed.
	Once(id string, carry func() (answer unlock.Answer, done bool, err error)) (unlock.Answer, error)
}

// commands carries out each command at most once, whichever broker sent it. Its methods are
// safe for concurrent use.
type commands struct {
	Config
	ring    atomic.Pointer[api.Keyring] // the keys that are trusted now
	slots   chan struct{}               // capacity maxUnderWay; each command that is carried out holds one
	running sync.WaitGroup              // these
	// refusals are those that get a record, by jti and reason; with "" for the jti where no
	// trusted key has signed them, which displace none of the others.
	refusals *limit.Digest[[2]string]
	updates  updating

	claiming sync.Mutex // the holder alone acquires slots and takes from updates.pace
}

// inbox takes what comes in on the topic of commands of one broker, and answers each there,
// also when another broker has been configured meanwhile.
type inbox struct {
	*commands
	answer func(api.Result) // sends it soon; never blocks
}

// newCommands answers the commands that the end of the process before has interrupted.
// No key is trusted before trust is called.
func newCommands(cfg Config, answer func(api.Result)) *commands {
	c := &commands{Config: cfg, slots: make(chan struct{}, maxUnderWay), refusals: limit.NewDigest[[2]string](maxApart)}
	c.updates.refusals = limit.NewDigest[[2]string](maxApartUpdates)
	c.trust(api.Keyring{})
	for _, id := range cfg.Unlocker.Interrupted() {
		inbox{c, answer}.end(id, site.Unresolved, api.Result{})
	}
	return c
}

// trust replaces the keys. A key that is removed opens nothing from now on, not even by a
// command that was verified already and has not left.
func (c *commands) trust(ring api.Keyring) { c.ring.Store(&ring) }

// refused is a command that is not carried out.
type refused struct {
	api.Refusal
	cmd   api.Command // what it states, if Verified; else zero
	first *api.First  // of a repeated one
}

// handle takes one message. It returns when the command is refused or its id is claimed;
// how it is carried out, which takes as long as the station does, is answered later, also
// when the connection has ended.
func (c inbox) handle(payload []byte, retained bool, received time.Time) {
	ring := c.ring.Load()
	cmd, err := ring.Verify(payload, c.Gateway, c.Clock.Now())
	r := c.judge(cmd, err, retained)
	if r == nil {
		r = c.claim(cmd)
	}
	if r != nil {
		c.refuse(*r)
		return
	}
	key, _ := ring.Key(cmd.KeyID)
	if cmd.Name == api.Update {
		c.running.Go(func() { c.update(cmd, key) })
		return
	}
	c.running.Go(func() { c.carryOut(cmd, key, received) })
}

// judge returns why a command is refused before its id is claimed; nil where it is not.
// While the clock is not trusted the gateway cannot know how late a command is: one that
// the broker has withheld, perhaps since a power cut, would open a door much later
// (contract, section 4). A trusted signer may know whether the station or only the lock is
// unknown.
func (c *commands) judge(cmd api.Command, err error, retained bool) *refused {
	refusal, failed := errors.AsType[*api.Refusal](err)
	if failed && (!refusal.Verified || refusal.Reason == api.WrongAudience || c.Clock.Trusted()) {
		return &refused{Refusal: *refusal}
	}
	state, enrolled := c.Stations.State(cmd.Station)
	switch {
	case failed:
		return &refused{Refusal: api.Refusal{Reason: api.Clock, ID: refusal.ID, KeyID: refusal.KeyID, Verified: true, Name: refusal.Name, Message: refusedByClock}}
	case !c.Clock.Trusted():
		return newRefused(cmd, api.Clock, refusedByClock)
	case retained:
		return newRefused(cmd, api.Retained, "the broker had retained the command; publish commands without the retain flag")
	case cmd.Name == api.Update:
		return c.judgeUpdate(cmd)
	case !enrolled:
		return newRefused(cmd, api.UnknownStation, "there is no station "+cmd.Station.String())
	case !slices.ContainsFunc(state.Locks, func(l site.Lock) bool { return l.ID == cmd.Lock }):
		return newRefused(cmd, api.UnknownLock, "station "+cmd.Station.String()+" has no "+cmd.Lock.String())
	}
	return nil
}

// claim acquires a slot and claims the command's id, or returns why it is refused. Copies of
// a command that is carried out hold no slot.
func (c *commands) claim(cmd api.Command) *refused {
	c.claiming.Lock()
	defer c.claiming.Unlock()
	updates := cmd.Name == api.Update
	if !updates && len(c.slots) == cap(c.slots) || updates && c.updates.wait() > 0 {
		return newRefused(cmd, api.Busy, "too many commands came in a short time; try again a little later")
	}
	first, err := c.Unlocker.Claim(cmd.ID, cmd.Expires)
	switch {
	case err == nil && updates:
		c.updates.take()
		return nil
	case err == nil:
		c.slots <- struct{}{}
		return nil
	}
	if !fault.Is(err, fault.Conflict) {
		return newRefused(cmd, api.Busy, fault.Sentence(err)+"; try again a little later")
	}
	r := newRefused(cmd, api.Repeated, "a command with this jti came before; sign a new one each time")
	r.first = &api.First{Outcome: first.Outcome, Time: site.At(first.Ended)}
	return r
}

func newRefused(cmd api.Command, reason api.Reason, message string) *refused {
	return &refused{cmd: cmd, Refusal: api.Refusal{Reason: reason, ID: cmd.ID, KeyID: cmd.KeyID, Verified: true, Message: message}}
}

// refuse counts a command that is not carried out, records it as far as the rate allows and
// then answers it: the record can be found by the answer.
func (c inbox) refuse(r refused) {
	c.Metrics.Refused("cloud-" + string(r.Reason))
	facts := site.Facts{By: r.cmd.Actor, Station: r.cmd.Station, JTI: r.ID, Detail: string(r.Reason)}
	if r.cmd.Lock != 0 {
		facts.Lock = r.cmd.Lock.String()
	}
	kind := [2]string{"", string(r.Reason)}
	if r.Verified {
		kind[0], facts.KeyID = r.ID, r.KeyID
	}
	refusals, record := c.refusals, c.record
	if r.cmd.Name == api.Update || r.Name == api.Update {
		refusals, record = c.updates.refusals, c.recordUpdate
	}
	if facts, due := refusals.Note(kind, facts, time.Now()); due {
		record(facts)
		c.Logger.Warn("cloud command refused", "reason", r.Reason, "why", r.Message, "jti", r.ID, "key", r.KeyID, "signed", r.Verified)
	}
	c.end(r.ID, site.Refused, api.Result{Reason: string(r.Reason), Message: r.Message, First: r.first})
}

// record records a refusal, or as many as it counts.
func (c *commands) record(facts site.Facts) {
	facts.Origin, facts.Outcome = site.Cloud, site.Refused
	c.Journal.AppendLater(site.Record{Kind: site.KindUnlock, Facts: facts})
}

// carryOut carries out a command whose id is claimed, and releases its slot. A failure of
// one command ends no other.
func (c inbox) carryOut(cmd api.Command, key api.Key, received time.Time) {
	defer func() { <-c.slots }()
	defer func() {
		if broken := recover(); broken != nil {
			c.Logger.Error("carrying out a cloud command broke down", "jti", cmd.ID, "panic", broken, "stack", string(debug.Stack()))
			c.end(cmd.ID, site.Unresolved, api.Result{})
		}
	}()
	var withdrawn atomic.Bool
	answer, err := c.Unlocker.Unlock(context.Background(), unlock.Request{
		Actor: site.Actor{Origin: site.Cloud, Name: cmd.Actor, KeyID: cmd.KeyID}, Station: cmd.Station, Lock: cmd.Lock,
		WaitResult: true, Accepted: received, Until: cmd.Expires, JTI: cmd.ID,
		MayLeave: func() bool {
			trusted := c.ring.Load().Trusts(key)
			withdrawn.Store(!trusted)
			return trusted
		},
	})
	switch {
	case fault.Is(err, fault.Unavailable):
		c.forbid(cmd, answer, api.Busy, fault.Sentence(err))
	case withdrawn.Load():
		c.forbid(cmd, answer, api.NotPermitted, "the key that signed it is no longer trusted")
	case err != nil:
		c.forbid(cmd, answer, api.NotPermitted, "the station or the lock was removed")
	default:
		c.Logger.Info("cloud command carried out", "jti", cmd.ID, "key", cmd.KeyID, "actor", cmd.Actor,
			"station", cmd.Station, "lock", cmd.Lock, "command", answer.Command, "outcome", answer.Outcome)
		c.end(cmd.ID, answer.Outcome, api.Result{Command: answer.Command, Message: answer.Message})
	}
}

// forbid refuses a command on its way. Where it got as far as the unlock, its records are
// there already.
func (c inbox) forbid(cmd api.Command, answer unlock.Answer, reason api.Reason, message string) {
	if answer.Command == "" {
		c.refuse(*newRefused(cmd, reason, message))
		return
	}
	c.Metrics.Refused("cloud-" + string(reason))
	c.end(cmd.ID, site.Refused, api.Result{Command: answer.Command, Reason: string(reason), Message: message})
}

// end answers a command.
func (c inbox) end(id string, outcome site.Outcome, result api.Result) {
	result.ID, result.Outcome, result.Time = id, outcome, site.At(c.Clock.Now())
	c.answer(result)
}
