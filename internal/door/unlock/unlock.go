// Package unlock is the one use case that opens a door. Every origin (LAN, cloud,
// administrator) goes through [Service.Unlock], and nothing else in the gateway
// can cause a command to leave for a station.
//
// Promises: a client that may not use a station learns nothing, not even whether it
// exists; a command leaves only after its record is durable (or kept, while the storage
// fails; a signed command not even then); it never leaves after its deadline, which counts
// from the moment the request was accepted, or is the end that the request brings with it,
// if that is earlier; nor when the client that asked for it has gone meanwhile; one
// Idempotency-Key sends one command, and so does one JTI.
package unlock

import (
	"context"
	"sync/atomic"
	"time"

	"gatehouse/internal/board/boottime"
	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// Permissions decides who may use which station; package access satisfies it.
type Permissions interface {
	// Permits reports whether a grant of account for station holds right now. Quick;
	// safe for concurrent use.
	Permits(account site.AccountID, station site.StationID) bool
	// Denial returns why Permits reports false: any of [site.Denial] but UnknownDoor. Quick;
	// safe for concurrent use.
	Denial(account site.AccountID, station site.StationID) site.Denial
	// Lives reports whether the session behind actor lives right now, with the role that
	// the request needs; true where no session is. Quick; safe for concurrent use.
	Lives(actor site.Actor) bool
}

// Doors knows which locks there are, and hears which commands are sent and how they end;
// package station satisfies it. Its methods are quick, wait for no storage, and are safe for
// concurrent use.
type Doors interface {
	// HasLock reports whether the station is enrolled with that lock.
	HasLock(station site.StationID, lock site.LockID) bool
	// Releasing is called directly before a command is sent.
	Releasing(station site.StationID, lock site.LockID, command site.CommandID)
	// Unlocked is called with the outcome of a command that was sent.
	Unlocked(station site.StationID, lock site.LockID, command site.CommandID, outcome site.Outcome)
}

// Caller hands commands to stations; package stationlink satisfies it.
type Caller interface {
	// Call sends one command to the live connection of its station, if there is one,
	// and waits for the acknowledgement, or with wantResult for the station's own
	// result, at most until the command's deadline. Unresolved: the gateway stops
	// meanwhile. Safe for concurrent use.
	Call(cmd site.Command, wantResult bool, d Departure) site.Outcome
}

// Departure is the moment at which a command leaves for its station. Each of its methods
// is called at most once.
type Departure interface {
	// MayLeave is called last of all before the command is sent. If it returns false,
	// nothing is sent and the outcome is Refused.
	MayLeave() bool
	// Left is called when the command is in the connection.
	Left()
	// NotSubscribed is called when the station is connected, but not subscribed to its
	// commands: nothing is sent.
	NotSubscribed()
	// Lost is called when the connection that the command left by has ended, and the answer may
	// come over the next one.
	Lost()
}

// Journal keeps the records; package journal satisfies it.
type Journal interface {
	// Intend returns when the record is durable, or kept while the storage fails; durable
	// reports which.
	Intend(r site.Record) (durable bool)
	// AppendLater writes a record soon and does not wait.
	AppendLater(r site.Record)
	// RecentUnlocks returns the newest unlock records, oldest first, within a bound all
	// with an Idempotency-Key or a JTI that were written within span before the last of
	// their run, and the records of updates, of a restore and of lost records between them.
	RecentUnlocks(ctx context.Context, span time.Duration) ([]site.Record, error)
}

// Request asks for one lock to be opened.
type Request struct {
	Actor          site.Actor
	Station        site.StationID // 0 when the caller could not tell which: refused like any other unknown
	Lock           site.LockID    // 0 likewise
	IdempotencyKey string         // "" or up to MaxKey bytes
	WaitResult     bool           // wait for the station's own result, not only its acknowledgement
	Client         Client         // waits for the answer; nil: until ctx ends
	Accepted       time.Time      // when the request came in, with a monotonic reading; zero: now

	// For commands that bring their own end and right with them, as those of the cloud do.
	Until    time.Time   // the deadline where it is earlier, by the gateway's clock; zero: none of its own
	MayLeave func() bool // whether the right still holds: asked last before the command leaves, and first of Home Assistant's; nil: nothing more to ask. Quick
	JTI      string      // the cloud's id of it, which [Service.Claim] has claimed

	began time.Duration // Accepted by the service's boot clock
	stay  *stay         // at the station
}

// Client is the caller that waits for the answer to a request; package kit satisfies it.
type Client interface {
	// Heard returns when the end of a client has arrived that had gone before its request
	// arrived, when ctx ends, or at the deadline, whichever is first.
	Heard(ctx context.Context, deadline time.Time)
	// Waiting reports whether the client still waits. It is called last before the command
	// is sent. Quick.
	Waiting() bool
}

// MaxKey is the longest idempotency key, in bytes.
const MaxKey = 255

// Answer is how a command ended, as far as is known.
type Answer struct {
	Command  site.CommandID
	Station  site.StationID
	Lock     site.LockID
	Outcome  site.Outcome
	Message  string    // for people, where it says more than the outcome; else ""
	Replayed bool      // the answer of an earlier request with the same key
	Ended    time.Time // of Claim's: when the first ended, by the gateway's clock; zero: not yet

	gone       bool // nothing was sent, because the client had gone
	unrecorded bool // a signed command was not sent, because its record is not durable
}

// errNotFound is the one answer to everything that the actor may not use.
var errNotFound = fault.New(fault.NotFound, "Station not found")

// Config is what a Service needs: all of it.
type Config struct {
	Permissions Permissions
	Doors       Doors
	Caller      Caller
	Journal     Journal
	Clock       site.Clock
	Metrics     *metric.Registry
	TTL         time.Duration // a command's deadline until SetTTL
	Bounds      Bounds        // of each account until SetBounds
}

// Service opens doors. Its methods are safe for concurrent use.
type Service struct {
	Config
	ttl         atomic.Int64 // of commands to come, in nanoseconds
	commands    *commands
	replays     *replays
	bounds      *bounds
	denials     *limit.Digest[use]
	interrupted []string             // signed commands that an earlier run had not ended
	boot        func() time.Duration // continues while the machine sleeps
}

// New returns the use case and reads from the journal what commands and keys of the
// last minutes must not be forgotten over a restart.
func New(ctx context.Context, cfg Config) (*Service, error) {
	s := &Service{Config: cfg, commands: newCommands(), replays: newReplays(cfg.Clock), bounds: newBounds(cfg.Bounds), denials: limit.NewDigest[use](limit.MaxKeys), boot: boottime.Now}
	s.SetTTL(cfg.TTL)
	if err := s.remember(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// SetTTL changes the deadline of the commands to come; it is more than zero.
func (s *Service) SetTTL(ttl time.Duration) { s.ttl.Store(int64(ttl)) }

// Unlock opens a lock and returns the outcome. It ends within the command's deadline. When
// ctx ends, because the client has gone, before the command has left, it does not leave; a
// command that has left is completed. The cloud's commands do not depend on ctx: they
// bring their own end. Errors: NotFound for everything that the actor may not use, with
// the same work whatever the reason; Invalid for an unusable key; Throttled beyond the
// account's [Bounds]; Timeout when ctx ends while an earlier request with the same key is
// still in flight; for a request with a JTI, Conflict when that was not claimed or was
// carried out, and Unavailable when its record cannot be made durable.
func (s *Service) Unlock(ctx context.Context, req Request) (Answer, error) {
	if req.Accepted.IsZero() {
		req.Accepted = time.Now()
	}
	req.began = s.boot() - time.Since(req.Accepted)
	if !s.mayOpen(req) {
		s.deny(req)
		return Answer{}, errNotFound
	}
	s.Metrics.Leg(metric.Accepted).Observe(time.Since(req.Accepted))
	if req.JTI != "" {
		return s.openSigned(ctx, req)
	}
	if len(req.IdempotencyKey) > MaxKey {
		return Answer{}, fault.New(fault.Invalid, "The Idempotency-Key is too long: 255 characters at most")
	}
	return s.openWithin(ctx, req)
}

// mayOpen does the same look-ups whatever their results are.
func (s *Service) mayOpen(req Request) bool {
	exists := s.Doors.HasLock(req.Station, req.Lock)
	granted := s.Permissions.Permits(req.Actor.Account, req.Station)
	switch req.Actor.Origin {
	case site.Admin, site.Cloud: // what these may is judged by those who let them in, and by MayLeave
		granted = true
	case site.Integration:
		granted = req.MayLeave()
	}
	return exists && granted
}

const (
	// detailGone is the detail of a refusal because the client had disconnected.
	detailGone = "the client had gone before the command left"
	// detailNotSubscribed is the detail of an unlock that was not sent, and its message.
	detailNotSubscribed = "connected, but not subscribed to its commands"
	// detailStopped is the detail of an unlock whose outcome is not known.
	detailStopped = "the gateway stopped before the station had answered: the door may have opened"
	// detailTooLate is the detail of a record after the outcome of a door that was
	// opened in time: its client was told that the command expired.
	detailTooLate = "recording the outcome took until after the deadline: the client was told that the command expired"
)

// deadline counts from the moment the request was accepted. The end that a request
// brings with it is read off the clock once: a step of the clock later moves nothing.
func (s *Service) deadline(req Request) time.Time {
	deadline := req.Accepted.Add(time.Duration(s.ttl.Load()))
	if req.Until.IsZero() {
		return deadline
	}
	if until := time.Now().Add(req.Until.Sub(s.Clock.Now())); until.Before(deadline) {
		return until
	}
	return deadline
}

// open is the straight line: intent, command, outcome.
func (s *Service) open(ctx context.Context, req Request) Answer {
	cmd := site.Command{
		ID: newCommandID(), Station: req.Station, Lock: req.Lock,
		Origin: req.Actor.Origin, Deadline: s.deadline(req),
	}
	record := s.record(req, cmd)
	s.commands.add(cmd, record.Facts)
	durable := s.Journal.Intend(record)
	s.Metrics.Leg(metric.Journalled).Observe(time.Since(req.Accepted))

	unrecorded := !durable && req.JTI != ""
	outcome := site.Refused
	if !unrecorded {
		outcome, record.Detail = s.call(ctx, req, cmd)
	}
	answer := Answer{
		Command: cmd.ID, Station: cmd.Station, Lock: cmd.Lock, Message: messageOf(record.Detail),
		unrecorded: unrecorded, gone: record.Detail == detailGone,
	}
	if outcome.Opened() {
		s.Metrics.Leg(metric.Acknowledged).Observe(time.Since(req.Accepted))
	}
	s.Metrics.Unlock(string(req.Actor.Origin), string(outcome))
	record.Outcome = outcome
	if req.IdempotencyKey != "" { // a retry, even after a crash, is to get this answer
		s.Journal.Intend(record)
	} else {
		s.Journal.AppendLater(record)
	}
	for _, reply := range s.commands.end(cmd.ID, outcome) {
		s.Journal.AppendLater(reply.record(record.Facts))
	}
	if outcome.Opened() && !time.Now().Before(cmd.Deadline) { // no success after the deadline (contract, section 1)
		record.Outcome, record.Answer, record.Detail = site.Late, string(outcome), detailTooLate
		s.Journal.AppendLater(record)
		outcome = site.Expired
	}
	answer.Outcome = outcome
	return answer
}

// call sends the command, unless its deadline has passed: then its station is not even
// asked for. detail says why nothing was sent, where the outcome does not.
func (s *Service) call(ctx context.Context, req Request, cmd site.Command) (outcome site.Outcome, detail string) {
	if req.Client != nil {
		req.Client.Heard(ctx, cmd.Deadline)
	}
	cmd.Deadline = cmd.Deadline.Add(-s.slept(req))
	if !time.Now().Before(cmd.Deadline) {
		return site.Expired, ""
	}
	d := &departure{service: s, ctx: ctx, request: req, command: cmd.ID}
	outcome = s.Caller.Call(cmd, req.WaitResult, d)
	if d.left {
		s.Doors.Unlocked(cmd.Station, cmd.Lock, cmd.ID, outcome)
	}
	if outcome == site.Unresolved {
		return outcome, detailStopped
	}
	return outcome, d.detail
}

// slept returns how long the machine was suspended since the request was accepted. The
// deadline passes meanwhile, but by Go's clock it does not.
func (s *Service) slept(req Request) time.Duration {
	return max(s.boot()-req.began-time.Since(req.Accepted), 0)
}

// messageOf returns the message of an answer whose record has that detail.
func messageOf(detail string) string {
	if detail == detailNotSubscribed {
		return detail
	}
	return ""
}

func (s *Service) record(req Request, cmd site.Command) site.Record {
	facts := site.ByActor(req.Actor)
	facts.Station, facts.Lock, facts.Command = cmd.Station, cmd.Lock.String(), cmd.ID
	facts.Outcome, facts.JTI = site.Requested, req.JTI
	if req.IdempotencyKey != "" {
		facts.IdempotencyKey = keyDigest(req)
	}
	return site.Record{Kind: site.KindUnlock, Facts: facts}
}

// Followed handles a station's answer to a command that comes while Call is in flight,
// after it, or after a restart: a result after the acknowledgement, or a late answer;
// lock is 0 where the station names none. It is recorded after the outcome of Call. An
// answer that names no recent command of that station and lock changes nothing, and one
// command gets a bounded number of records.
func (s *Service) Followed(id site.CommandID, station site.StationID, lock site.LockID, outcome site.Outcome) bool {
	records, known := s.commands.follow(id, station, lock, outcome)
	for _, r := range records {
		s.Journal.AppendLater(r)
	}
	return known
}

// Command returns how a command ended that this actor's account sent; of one that is
// still under way it waits for the end. The newest commands are known, over a restart those
// of the last minutes. NotFound for any other; Timeout when ctx ends first.
func (s *Service) Command(ctx context.Context, actor site.Actor, id site.CommandID) (Answer, error) {
	entry, ok := s.commands.get(id)
	if !ok || entry.facts.Account != actor.Account || actor.Account == "" {
		return Answer{}, errNoCommand
	}
	select {
	case <-entry.done:
	case <-ctx.Done():
		return Answer{}, fault.Wrap(fault.Timeout, "The command is still under way", ctx.Err())
	}
	if entry, ok = s.commands.get(id); !ok {
		return Answer{}, errNoCommand
	}
	return Answer{Command: id, Station: entry.cmd.Station, Lock: entry.cmd.Lock, Outcome: ended(entry.outcome)}, nil
}

var errNoCommand = fault.New(fault.NotFound, "Command not found")

// ended returns one of the outcomes of /local/v1 (contract, section 1): what is not
// known was not acknowledged in time.
func ended(outcome site.Outcome) site.Outcome {
	switch outcome {
	case site.Requested, site.Unresolved, site.Late:
		return site.Expired
	default:
		return outcome
	}
}
