package stationsim

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"gatehouse/internal/site"
)

const (
	// maxCommands bounds the commands in flight; a further one is lost.
	maxCommands = 32
	// remembered is how many command ids a station keeps, as firmware with little memory
	// would.
	remembered = 128
	// walk is how long after an unlock a person opens the door.
	walk = time.Second
)

// lock is one lock with its motor.
type lock struct {
	status  site.LockStatus
	free    time.Time // when the motor has done what it was told so far
	opened  int       // how often it opened or jammed: it locks again if it has not since
	passing int       // how many people hold its door open
}

// order is one command on its way through the station.
type order struct {
	command
	lock    int           // index
	expires time.Duration // by its ttl and the station's own uptime
	link    *link
	ack     func()
}

// inTime reports whether a motion that begins after a wait ends within the deadline. A lock
// whose motor is that slow must not begin later.
func (s *Station) inTime(o *order, wait time.Duration) bool {
	ends := s.cfg.Uptime() + wait + s.cfg.Actuation
	if o.NotAfter != nil {
		return float64(ends) <= *o.NotAfter*float64(time.Millisecond)
	}
	return ends <= o.expires
}

// receive handles a command in a goroutine of the MQTT client, from its arrival to its
// result. ctx ends with the station.
func (s *Station) receive(ctx context.Context, l *link, m mqtt.Message) {
	select {
	case s.commands <- struct{}{}:
		defer func() { <-s.commands }()
	default: // lost
		return
	}
	var c command
	if json.Unmarshal(m.Payload(), &c) != nil || c.ID == "" { // it cannot be refused, and is not acknowledged: that would be a success
		s.emit(Event{Kind: Declined, Detail: "the command is not JSON of the contract"})
		return
	}
	s.emit(c.event(Received, ""))
	o := &order{command: c, link: l, ack: m.Ack, expires: s.cfg.Uptime() + c.ttl()}
	if chance(s.cfg.Faults.Drop) {
		s.emit(c.event(Dropped, ""))
		return
	}
	if past, known := s.know(c.ID); known {
		s.repeat(o, past)
		return
	}
	id, err := site.ParseLockID(c.LockID)
	if err != nil || int(id) > s.cfg.Locks || c.Command != "unlock" {
		s.refuse(o, Declined, "no such lock or command")
		return
	}
	o.lock = int(id) - 1
	s.carryOut(ctx, o)
}

// carryOut waits as long as the station is slow and its motor is busy, and runs the motor.
// Directly before that it compares the deadline: the wait may have taken longer than it
// should. It acknowledges a command that it carries out then, and no earlier, so that an
// acknowledgement is true.
func (s *Station) carryOut(ctx context.Context, o *order) {
	if !wait(ctx, s.cfg.Faults.Slow) || !o.link.client.IsConnectionOpen() {
		s.emit(o.event(Dropped, "the connection ended before it was acknowledged"))
		return
	}
	begins, ok := s.reserve(o)
	if !ok {
		s.refuse(o, Expired, "past its deadline before the motor is free")
		return
	}
	if wait(ctx, time.Until(begins)); !s.inTime(o, 0) { // the station was frozen meanwhile
		s.refuse(o, Expired, "past its deadline when the motor was free")
		return
	}
	o.ack()
	if wait(ctx, s.cfg.Actuation) {
		s.open(ctx, o)
	}
}

// reserve reserves the motor of the order's lock and returns when its motion begins; not
// ok where that ends past the deadline.
func (s *Station) reserve(o *order) (begins time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.locks[o.lock]
	if begins = time.Now(); begins.Before(l.free) {
		begins = l.free
	}
	if !s.inTime(o, time.Until(begins)) {
		return begins, false
	}
	l.free = begins.Add(s.cfg.Actuation)
	return begins, true
}

// open ends the motion of a lock: it is open, or jams; an open one locks again later.
func (s *Station) open(ctx context.Context, o *order) {
	r, kind := result{ID: o.ID, LockID: o.LockID, Result: site.Done, Status: site.Unlocked}, Opened
	if chance(s.cfg.Faults.Jam) {
		r.Result, r.Status, kind = site.Failed, site.Jammed, Jammed
	}
	s.mu.Lock()
	l := &s.locks[o.lock]
	l.opened++
	l.status = r.Status
	opened := l.opened
	if kind == Opened {
		s.opened++
		s.volts -= perOpening
	}
	s.results[o.ID] = &r
	s.mu.Unlock()
	o.link.publish(resultTopic(s.cfg.ID), r)
	s.emit(o.event(kind, ""))
	s.report()
	if kind == Opened {
		s.running.Go(func() {
			if wait(ctx, s.cfg.Relock) {
				s.relock(o, opened)
			}
		})
		if s.cfg.DoorOpen > 0 {
			s.running.Go(func() { s.pass(ctx, o.lock) })
		}
	}
}

// pass plays a person who opens the door of an open lock, and lets it close.
func (s *Station) pass(ctx context.Context, lock int) {
	if wait(ctx, walk) {
		s.hold(lock, 1, DoorOpened)
		wait(ctx, s.cfg.DoorOpen)
		s.hold(lock, -1, DoorClosed)
	}
}

// hold changes how many people hold a door open: it opens with the first, and closes with
// the last.
func (s *Station) hold(lock, more int, moved Kind) {
	s.mu.Lock()
	l := &s.locks[lock]
	alone := min(l.passing, l.passing+more) == 0
	l.passing += more
	s.mu.Unlock()
	if alone {
		s.emit(Event{Kind: moved, Lock: site.LockID(lock + 1).String()})
		s.report()
	}
}

// relock locks a lock again, unless it has opened once more since.
func (s *Station) relock(o *order, opened int) {
	s.mu.Lock()
	l := &s.locks[o.lock]
	last := l.opened == opened
	if last {
		l.status = site.Locked
	}
	s.mu.Unlock()
	if last {
		s.emit(Event{Kind: Relocked, Lock: o.LockID})
		s.report()
	}
}

// refuse answers a command that the station ignores.
func (s *Station) refuse(o *order, kind Kind, why string) {
	s.emit(o.event(kind, why))
	s.answer(o, result{ID: o.ID, Result: site.Refused, LockID: o.LockID})
}

// answer publishes the result of a command that is not carried out, and acknowledges the
// command once the broker has that result: the first answer counts (contract, section 2).
func (s *Station) answer(o *order, r result) {
	s.mu.Lock()
	s.results[o.ID] = &r
	s.mu.Unlock()
	token := o.link.publish(resultTopic(s.cfg.ID), r)
	<-token.Done() // the end of the connection completes it too
	if token.Error() == nil {
		o.ack()
	}
}

// repeat answers a command whose id was seen before as it was answered then. While that is
// not known yet, the first will be answered, and the second is not.
func (s *Station) repeat(o *order, past *result) {
	s.emit(o.event(Repeated, ""))
	if past != nil {
		s.answer(o, *past)
	}
}

// know reports whether a command's id was seen before, with its result if there is one
// yet; a new id is remembered and the oldest forgotten.
func (s *Station) know(id site.CommandID) (past *result, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if past, known = s.results[id]; known {
		return past, true
	}
	if s.ids = append(s.ids, id); len(s.ids) > remembered {
		delete(s.results, s.ids[0])
		s.ids = s.ids[1:]
	}
	s.results[id] = nil
	return nil, false
}

// chance reports whether something of that probability happens.
func chance(probability float64) bool {
	return rand.Float64() < probability //nolint:gosec // plays hardware, guards nothing
}
