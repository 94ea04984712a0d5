package cloudtail

import (
	"fmt"
	"time"

	"gatehouse/internal/site"
)

const (
	// sayAfter and sayBeyond say when a gateway gets its acknowledgement: so soon after a
	// record, or when there are so many of them.
	sayAfter  = 200 * time.Millisecond
	sayBeyond = 50
	// settling is how long what was overtaken on the way may take to come.
	settling = time.Second
	// askEvery is how often a gateway is asked to send again, and askFirst how many
	// times when the application has just come, or something late: one that has just sent
	// something waits a moment first.
	askEvery = 2 * time.Second
	askFirst = 3
	// reportAfter is how long records may be missing before that is said.
	reportAfter = 3 * time.Second
	// sure is how often the gateway must have sent again without something, until it is
	// sure that it was not the broker that lost it each time.
	sure = 4
	// widest is the largest window of a gateway (cloud.window): one that has sent that
	// many records beyond some other does not wait for its acknowledgement.
	widest = 1000
	// giveUpAfter is after how long a gateway that goes on sending, though it was asked
	// again and again, does not have what is missing.
	giveUpAfter = 2 * time.Minute
	// maxAhead and maxAheadBytes bound what is held because something before it is
	// missing; what does not fit is sent again.
	maxAhead      = 2 * widest
	maxAheadBytes = 8 << 20
)

// ledger is how far the journal of one gateway has come. It does no input or output and
// is not safe for concurrent use: whoever owns it tells it the time.
type ledger struct {
	gateway site.GatewayID
	asking  bool // whether this application acknowledges, and so may ask for what is missing
	emit    func(Event)

	begun bool   // whether last means anything
	last  uint64 // everything up to here was given
	boots boots  // of what was given

	// watched says that the application was there when the gateway connected: so it was
	// sent everything that the gateway did not count as delivered then.
	watched bool
	online  time.Time // since when the gateway has been connected, as it last said
	status  string    // the last one, without the progress

	ahead    map[uint64]*ahead // what came and cannot be given yet, by its first seq
	size     int               // of their payloads
	since    time.Time         // when the first of them came
	low      uint64            // the lowest of them
	highest  uint64            // that came, held or not
	goesOn   time.Time         // when something new came though giveUpAfter had passed; zero: it did not
	reported bool              // Waiting was said
	asked    time.Time
	asks     int // that are left, though nothing is missing

	// Since the last acknowledgement:
	given    int       // things
	repeats  int       // things that came again
	repeated uint64    // the highest of these
	sayAt    time.Time // when to acknowledge them
}

// ahead is an item that is held, and how often the gateway sent it.
type ahead struct {
	item
	times int
	at    time.Time // when it came last
}

func newLedger(gateway site.GatewayID, asking bool, emit func(Event)) *ledger {
	return &ledger{gateway: gateway, asking: asking, emit: emit, ahead: make(map[uint64]*ahead)}
}

// receive takes what came on the topic of the journal.
func (l *ledger) receive(now time.Time, it item) {
	if l.given+l.repeats == 0 {
		l.sayAt = now.Add(sayAfter)
	}
	switch {
	case l.had(it):
		l.repeats++
		l.repeated = max(l.repeated, it.to)
	case l.follows(it):
		l.give(it)
		l.giveAhead(now)
	default:
		l.hold(now, it)
	}
}

// says takes what the gateway says of its connection: that it has just connected, unless it
// has said that before or the broker has kept it.
func (l *ledger) says(now time.Time, online *site.Timestamp, kept bool) {
	again := online != nil && online.Equal(l.online)
	if online != nil {
		l.online = online.Time
	}
	if !again && !kept {
		l.connected(now)
	}
}

// connected says that the gateway has just connected, and sends everything that it does
// not count as delivered. What is held comes again, or was of another gateway, before
// this one was restored.
func (l *ledger) connected(now time.Time) {
	l.watched = true
	for _, a := range l.ahead {
		if now.Sub(a.at) >= settling { // else it may be of the new connection, and have overtaken this
			l.drop(a)
		}
	}
	l.wait(now)
	l.low = l.lowest()
}

// had reports whether this very thing was given. A record whose place a gap took was not:
// it was overtaken by the gap, or the gateway was restored, or the gap was not its own. One
// that comes again and again is believed, so that no gap, however far it reaches, silences a
// gateway for good.
func (l *ledger) had(it item) bool {
	return l.begun && it.to <= l.last && l.boots.agree(it)
}

// follows reports whether it is what comes next. The first record of another start may
// be of a gateway that was restored from a backup, and others of it on their way under
// numbers that were given: it has to wait for them.
func (l *ledger) follows(it item) bool {
	switch {
	case !l.begun:
		return it.from == 1
	case it.record == nil:
		return it.from <= l.last+1 && it.to > l.last
	default:
		given, _ := l.boots.at(l.last)
		return it.from == l.last+1 && (given == "" || given == it.boot)
	}
}

// give hands the next thing to the application.
func (l *ledger) give(it item) {
	it.from = max(it.from, l.last+1) // a gap may begin before
	l.boots.add(it)
	e := Event{Kind: Record, Gateway: l.gateway, Record: it.record, Payload: it.payload}
	if it.record == nil {
		e.Kind, e.From, e.To = Gap, it.from, it.to
	}
	l.begun, l.last = true, it.to
	l.given++
	l.emit(e)
}

// giveAhead gives what was held and follows now, and forgets what was given otherwise.
func (l *ledger) giveAhead(now time.Time) {
	if len(l.ahead) == 0 {
		return
	}
	for a := l.ahead[l.last+1]; a != nil && l.follows(a.item); a = l.ahead[l.last+1] {
		l.drop(a)
		l.give(a.item)
	}
	for _, a := range l.ahead {
		if a.from <= l.last && (a.to > l.last || l.boots.agree(a.item) || l.boots.inGap(a.to)) {
			l.drop(a)
		}
	}
	l.wait(now)
	l.low = l.lowest()
}

// wait begins to wait for what is missing.
func (l *ledger) wait(now time.Time) {
	l.since, l.goesOn, l.reported = now, time.Time{}, false
}

func (l *ledger) drop(a *ahead) {
	delete(l.ahead, a.from)
	l.size -= len(a.payload)
}

func (l *ledger) lowest() uint64 {
	low := ^uint64(0)
	for from := range l.ahead {
		low = min(low, from)
	}
	return low
}

// hold keeps what cannot be given yet.
func (l *ledger) hold(now time.Time, it item) {
	if len(l.ahead) == 0 {
		l.wait(now)
		l.low, l.highest = it.from, 0
	}
	if it.from > l.highest {
		l.highest = it.from
		if now.Sub(l.since) >= giveUpAfter {
			l.goesOn = now
		}
	}
	a := l.ahead[it.from]
	switch {
	case a != nil && a.boot == it.boot && a.to == it.to:
		if now.Sub(a.at) >= settling { // else the broker has repeated it
			a.times++
		}
		a.at = now
	case a != nil:
		l.drop(a)
		l.keep(now, it)
	case len(l.ahead) < maxAhead && l.size < maxAheadBytes:
		l.keep(now, it)
		if !l.begun && it.record != nil {
			l.emit(Event{Kind: Live, Gateway: l.gateway, Record: it.record, Payload: it.payload})
		}
	default:
		return
	}
	l.low = min(l.low, it.from)
	if l.late(l.ahead[it.from]) { // a gateway that has it may be slow to send it again by itself
		l.asks = askFirst
	}
}

func (l *ledger) keep(now time.Time, it item) {
	l.ahead[it.from] = &ahead{item: it, times: 1, at: now}
	l.size += len(it.payload)
}

// tick does what time alone brings about.
func (l *ledger) tick(now time.Time) {
	l.dropLate()
	if len(l.ahead) == 0 || l.ahead[l.low] == nil {
		return
	}
	if l.begun && l.low > l.last+1 && !l.reported && now.Sub(l.since) >= reportAfter {
		l.reported = true
		l.emit(Event{Kind: Waiting, Gateway: l.gateway, From: l.last + 1, To: l.low - 1})
	}
	for len(l.ahead) > 0 && l.settled(now) {
		l.goOn(now)
	}
}

// late reports whether a gap has taken the place of something that is held. Nothing is
// missing before it: either the gateway has it and sends it again, or nobody does.
func (l *ledger) late(a *ahead) bool { return l.begun && a.to <= l.last && l.boots.inGap(a.to) }

// dropLate forgets the lowest of what is held, in the place of something that was given, once
// the gateway has for long sent others again without it: it begins with the first that it
// does not count as delivered. One that never sends again may be a restored one, for which
// the broker's word counts: of that nothing is forgotten.
func (l *ledger) dropLate() {
	var again time.Time // when something last came again
	for _, a := range l.ahead {
		if a.times > 1 && a.at.After(again) {
			again = a.at
		}
	}
	for a := l.ahead[l.low]; l.begun && a != nil && a.to <= l.last && again.Sub(a.at) >= giveUpAfter; a = l.ahead[l.low] {
		l.drop(a)
		l.low = l.lowest()
	}
}

// settled reports whether nothing will come before the lowest of what is held. A
// gateway that sends again begins with the first record that it does not count as
// delivered: so when the lowest has come again and again, that is it.
func (l *ledger) settled(now time.Time) bool {
	first := l.ahead[l.low]
	switch {
	case now.Sub(first.at) < settling:
		return false
	case l.begun && l.low == l.last+1 && (l.watched || !l.asking || first.times > 1): // another start
		return true
	case first.times >= sure, l.highest >= l.low+widest:
		return true
	case !l.asking: // nothing is lost by it
		return !l.begun || now.Sub(l.since) >= 2*reportAfter
	default:
		return !l.goesOn.IsZero() && now.Sub(l.goesOn) >= settling
	}
}

// goOn begins with the lowest of what is held.
func (l *ledger) goOn(now time.Time) {
	first := l.ahead[l.low]
	switch {
	case l.begun && first.from > l.last+1:
		l.emit(Event{Kind: Missing, Gateway: l.gateway, From: l.last + 1, To: first.from - 1})
	case l.begun && first.from <= l.last:
		detail := "these records had been said to be gone"
		if boot, _ := l.boots.at(first.from); boot != "" {
			detail = fmt.Sprintf("records of %s had come under these numbers", boot)
		}
		l.emit(Event{Kind: Restored, Gateway: l.gateway, From: first.from, Detail: detail})
		l.boots.cut(first.from)
	}
	l.begun, l.last = true, first.from-1
	l.drop(first)
	l.give(first.item)
	l.giveAhead(now)
}

// arrived says that the application has just connected.
func (l *ledger) arrived() { l.watched, l.asks = false, askFirst }

// due reports whether the gateway is to be asked to send again what is not
// acknowledged, and notes that it is.
func (l *ledger) due(now time.Time) bool {
	missing := false
	for _, a := range l.ahead {
		missing = missing || !l.late(a) && now.Sub(l.since) >= settling
	}
	if !missing && l.asks == 0 || now.Sub(l.asked) < askEvery {
		return false
	}
	l.asks, l.asked = max(l.asks-1, 0), now
	return true
}

// full reports whether so much was taken that it is to be acknowledged at once.
func (l *ledger) full() bool { return l.given+l.repeats >= sayBeyond }

// unsaid reports whether something was taken that is to be acknowledged by now.
func (l *ledger) unsaid(now time.Time) bool { return l.given+l.repeats > 0 && !now.Before(l.sayAt) }

// acknowledge gives what to acknowledge, and notes that it is; false for nothing. What
// only came again is acknowledged as far as it did and no further: a gateway that was
// restored from a backup has fewer records than were given, and writes others.
func (l *ledger) acknowledge() (seq uint64, ok bool) {
	switch {
	case l.given > 0:
		seq, ok = l.last, true
	case l.repeats > 0:
		seq, ok = l.repeated, true
	}
	l.forget()
	return seq, ok
}

// forget forgets what is to be acknowledged: it will come again.
func (l *ledger) forget() { l.given, l.repeats, l.repeated = 0, 0, 0 }
