package homeassistant

import (
	"context"
	"encoding/json"
	"math"
	"runtime/debug"
	"strconv"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// commandLife is how old a command may be, and commandSkew how far the clock of Home
	// Assistant may be ahead, in seconds.
	commandLife = 10
	commandSkew = 1
	// maxUnderWay bounds the commands that are carried out at once.
	maxUnderWay = 16
	// account is in the place of an account's id, which is a UUID: what Home Assistant
	// asks for is bounded, and remembered once, as what an account does.
	account = site.AccountID("homeassistant")

	wordLock, wordUnlock = "LOCK", "UNLOCK"
)

// Why a command is refused: the details of records. There are maxReasons at most.
const (
	malformed   = `the command is not understood: it is {"command":"UNLOCK","at":SECONDS}, on the topic of a lock`
	wasRetained = "the broker had retained the command"
	noClock     = "the gateway's clock is not trusted"
	tooLate     = "the command is older than 10 s"
	inFuture    = "the command is from the future: compare the clocks of Home Assistant and of the gateway"
	repeated    = "the command came before"
	busy        = "too many commands are under way"
	maxReasons  = 16
)

// command is what the command_template of a lock or a button makes.
type command struct {
	Command string   `json:"command"`
	At      *float64 `json:"at"` // when it was sent, in seconds since 1970
}

// handle takes a command for a lock, and returns at once. It reports whether the station's
// state is to be sent again: to lock is what the station does by itself.
func (s *session) handle(id site.StationID, lock site.LockID, m mqttclient.Message) (again bool) {
	received := time.Now()
	var c command
	if json.Unmarshal(m.Payload, &c) != nil || c.Command != wordLock && (c.Command != wordUnlock || c.At == nil) {
		s.refuse(id, lock, malformed)
		return false
	}
	if c.Command == wordLock {
		return true
	}
	now := s.Clock.Now()
	age := float64(now.UnixMicro())/1e6 - *c.At
	if reason := s.doubt(m.Retained, age); reason != "" {
		s.refuse(id, lock, reason)
		return false
	}
	select {
	case s.slots <- struct{}{}:
	default:
		s.refuse(id, lock, busy)
		return false
	}
	until := now.Add(time.Duration((commandLife - age) * float64(time.Second)))
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.carryOut(unlock.Request{
			Actor:   site.Actor{Origin: site.Integration, Account: account, Name: "Home Assistant"},
			Station: id, Lock: lock, IdempotencyKey: strconv.FormatFloat(*c.At, 'f', -1, 64),
			WaitResult: true, Accepted: received, Until: until, MayLeave: func() bool { return s.mayUnlock(id) },
		})
	})
	return false
}

// doubt returns why a command is refused before its right is judged; "" where it is not.
// Without a clock that was right in this run its age is unknown: the broker may have withheld
// it since a power cut.
func (l *Link) doubt(retained bool, age float64) string {
	switch {
	case retained:
		return wasRetained
	case !l.Clock.Holdover():
		return noClock
	case math.IsNaN(age), age > commandLife:
		return tooLate
	case age < -commandSkew:
		return inFuture
	}
	return ""
}

func (s *session) mayUnlock(id site.StationID) bool {
	st, enrolled := s.Stations.Station(id)
	return enrolled && s.opens(st)
}

// opens reports whether a station may be unlocked by this broker: one that nothing
// authenticates may be any machine that answers at its address.
func (s *session) opens(st site.Station) bool {
	return st.HomeAssistant == site.HomeAssistantUnlock && (s.authenticated.Load() || s.PlainUnlock)
}

// carryOut opens the door. The outcome reaches Home Assistant by the journal. A failure of
// one command ends no other.
func (l *Link) carryOut(req unlock.Request) {
	defer func() {
		if broken := recover(); broken != nil {
			l.Logger.Error("carrying out a command of home assistant broke down", "panic", broken, "stack", string(debug.Stack()))
		}
	}()
	answer, err := l.Unlocker.Unlock(context.Background(), req)
	switch {
	case err == nil && answer.Replayed:
		l.refuse(req.Station, req.Lock, repeated)
	case err != nil:
		l.Logger.Debug("command of home assistant not carried out", "station", req.Station, "lock", req.Lock, "why", fault.Sentence(err))
	}
}

// refuse counts a command that is not carried out; of each reason there is at most a
// record a minute.
func (l *Link) refuse(id site.StationID, lock site.LockID, reason string) {
	l.Metrics.Refused("homeassistant")
	facts := site.Facts{Station: id, Detail: reason}
	if lock != 0 {
		facts.Lock = lock.String()
	}
	if facts, due := l.refusals.Note(reason, facts, time.Now()); due {
		l.record(facts)
	}
}

func (l *Link) record(facts site.Facts) {
	facts.Origin, facts.Outcome, facts.By = site.Integration, site.Refused, "Home Assistant"
	l.Journal.AppendLater(site.Record{Kind: site.KindUnlock, Facts: facts})
}
