package stationsim

import (
	"math/rand/v2"
	"slices"
	"time"

	"gatehouse/internal/site"
)

// Bounds of a station's memory; what does not fit is lost.
const (
	maxWaiting = 16 // commands received but not yet acknowledged
	maxQueued  = 4  // commands waiting for the actuator of one lock
)

// device is the hardware of one station as a state machine: whoever drives it
// tells it the time and carries out the effects. It starts nothing, waits for
// nothing and is not safe for concurrent use.
type device struct {
	cfg     Config // with defaults
	random  *rand.Rand
	locks   []lock
	waiting []order // received, not yet acknowledged
	memory  memory

	volts      float64
	drainedAt  time.Time
	nextReport time.Time
}

// lock is one lock with its actuator.
type lock struct {
	status   site.LockStatus
	relockAt time.Time // zero: nothing to lock again
	queue    []order
	doneAt   time.Time // when the motion for queue[0] ends; zero: the actuator rests
}

// order is one command on its way through the station.
type order struct {
	id      site.CommandID
	lock    int       // index
	expires time.Time // by the ttl and the station's own clock
	until   *float64  // the deadline in its uptime, in milliseconds; it decides where it came
	ackAt   time.Time
	link    *link
	ack     func()
}

// effects is what the hardware wants done.
type effects struct {
	acks     []func()
	results  []result
	refusals []refusal
	report   bool
	events   []Event
}

// refusal is the answer to a command that the station ignores: its result, and only then
// its acknowledgement.
type refusal struct {
	result result
	ack    func()
}

func (e *effects) refuse(id site.CommandID, lockID string, ack func()) {
	e.refusals = append(e.refusals, refusal{result{ID: id, Result: site.Refused, LockID: lockID}, ack})
}

func newDevice(cfg Config, now time.Time) *device {
	d := &device{cfg: cfg, random: cfg.Random, locks: make([]lock, cfg.Locks), volts: cfg.Battery.Start, drainedAt: now}
	for i := range d.locks {
		d.locks[i].status = site.Locked
	}
	d.nextReport = now.Add(d.reportPause())
	return d
}

// reportPause spreads the periodic reports of a fleet over time.
func (d *device) reportPause() time.Duration {
	half := d.cfg.ReportEvery / 2
	return half + time.Duration(d.random.Int64N(int64(half)+1))
}

// receive takes one command that arrived over l at now. ack acknowledges it.
func (d *device) receive(now time.Time, payload []byte, l *link, ack func()) effects {
	c, err := parseCommand(payload)
	if err != nil || c.ID == "" { // it cannot be refused, and is not acknowledged: that would be a success
		return effects{events: []Event{d.event(now, Declined, "", "", "the command is not JSON of the contract")}}
	}
	out := effects{events: []Event{d.command(now, Received, c, "")}}
	if d.cfg.Faults.Drop > 0 && d.random.Float64() < d.cfg.Faults.Drop || len(d.waiting) == maxWaiting {
		out.events = append(out.events, d.command(now, Dropped, c, ""))
		return out
	}
	id, err := site.ParseLockID(c.LockID)
	if err != nil || int(id) > len(d.locks) || c.Command != "unlock" {
		out.refuse(c.ID, c.LockID, ack)
		out.events = append(out.events, d.command(now, Declined, c, "no such lock or command"))
		return out
	}
	if past, known := d.memory.know(c.ID); known {
		return d.repeat(now, c, past, ack, out)
	}
	d.waiting = append(d.waiting, order{
		id: c.ID, lock: int(id) - 1, link: l, ack: ack,
		expires: now.Add(c.ttl()), until: c.NotAfter, ackAt: now.Add(d.cfg.Faults.Slow),
	})
	return out
}

// repeat answers a command whose id was seen before as it was answered then.
func (d *device) repeat(now time.Time, c command, past *result, ack func(), out effects) effects {
	out.acks = append(out.acks, ack)
	if past != nil {
		out.results = append(out.results, *past)
	}
	out.events = append(out.events, d.command(now, Repeated, c, ""))
	return out
}

// unlink forgets the commands of l that were never acknowledged: the gateway has
// given them up with the connection.
func (d *device) unlink(now time.Time, l *link) effects {
	var out effects
	d.waiting = slices.DeleteFunc(d.waiting, func(o order) bool {
		if o.link != l {
			return false
		}
		out.events = append(out.events, d.order(now, Dropped, o, "the connection ended before it was acknowledged"))
		return true
	})
	return out
}

// advance does everything that is due at now.
func (d *device) advance(now time.Time) effects {
	var out effects
	d.acknowledge(now, &out)
	for i := range d.locks {
		d.relock(now, i, &out)
		d.finish(now, i, &out)
		d.start(now, i, &out)
	}
	if !now.Before(d.nextReport) {
		d.nextReport = now.Add(d.reportPause())
		out.report = true
	}
	return out
}

// acknowledge moves the orders whose wait is over to their actuators.
func (d *device) acknowledge(now time.Time, out *effects) {
	d.waiting = slices.DeleteFunc(d.waiting, func(o order) bool {
		if now.Before(o.ackAt) {
			return false
		}
		l := &d.locks[o.lock]
		switch {
		case d.past(o, d.startOf(l, now), now):
			out.refuse(o.id, site.LockID(o.lock+1).String(), o.ack)
			out.events = append(out.events, d.order(now, Expired, o, "past its deadline before it could begin"))
		case len(l.queue) == maxQueued:
			out.events = append(out.events, d.order(now, Dropped, o, "the actuator's queue is full"))
		default:
			out.acks = append(out.acks, o.ack)
			l.queue = append(l.queue, o)
		}
		return true
	})
}

// startOf returns when the actuator of a lock is free for one more order.
func (d *device) startOf(l *lock, now time.Time) time.Time {
	if len(l.queue) == 0 {
		return now
	}
	return l.doneAt.Add(time.Duration(len(l.queue)-1) * d.cfg.Actuation)
}

// past reports whether the motion for an order, which begins at that time, now or later,
// would begin after its deadline.
func (d *device) past(o order, begins, now time.Time) bool {
	if o.until != nil {
		return float64(d.cfg.Uptime()+begins.Sub(now)) > *o.until*float64(time.Millisecond)
	}
	return begins.After(o.expires)
}

// start sets the actuator of lock i in motion for the first order that is still
// fresh.
func (d *device) start(now time.Time, i int, out *effects) {
	l := &d.locks[i]
	for l.doneAt.IsZero() && len(l.queue) > 0 {
		if o := l.queue[0]; d.past(o, now, now) { // the station was frozen meanwhile
			out.results = append(out.results, result{ID: o.id, Result: site.Refused, LockID: site.LockID(i + 1).String()})
			out.events = append(out.events, d.order(now, Expired, o, "past its deadline when the actuator was free"))
			l.queue = slices.Delete(l.queue, 0, 1)
			continue
		}
		l.doneAt = now.Add(d.cfg.Actuation)
	}
}

// finish ends the motion of lock i when it is over.
func (d *device) finish(now time.Time, i int, out *effects) {
	l := &d.locks[i]
	if l.doneAt.IsZero() || now.Before(l.doneAt) {
		return
	}
	o := l.queue[0]
	l.queue, l.doneAt = slices.Delete(l.queue, 0, 1), time.Time{}
	d.drain(now)
	d.volts -= d.cfg.Battery.Opening
	r := result{ID: o.id, LockID: site.LockID(i + 1).String(), Result: site.Done, Status: site.Unlocked}
	kind := Opened
	l.relockAt = now.Add(d.cfg.Relock)
	if d.cfg.Faults.Jam > 0 && d.random.Float64() < d.cfg.Faults.Jam {
		r.Result, r.Status, kind = site.Failed, site.Jammed, Jammed
		l.relockAt = time.Time{}
	}
	l.status = r.Status
	d.memory.ended(r)
	out.results = append(out.results, r)
	out.report = true
	out.events = append(out.events, d.order(now, kind, o, ""))
}

func (d *device) relock(now time.Time, i int, out *effects) {
	l := &d.locks[i]
	if l.relockAt.IsZero() || now.Before(l.relockAt) {
		return
	}
	l.status, l.relockAt = site.Locked, time.Time{}
	out.report = true
	out.events = append(out.events, d.event(now, Relocked, site.LockID(i+1).String(), "", ""))
}

// next gives the time of the next thing that becomes due.
func (d *device) next() time.Time {
	due := d.nextReport
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(due) {
			due = t
		}
	}
	for _, o := range d.waiting {
		earlier(o.ackAt)
	}
	for i := range d.locks {
		earlier(d.locks[i].doneAt)
		earlier(d.locks[i].relockAt)
	}
	return due
}

// drain brings the battery up to date, and changes an empty one.
func (d *device) drain(now time.Time) {
	d.volts -= d.cfg.Battery.Hourly * now.Sub(d.drainedAt).Hours()
	d.drainedAt = now
	if d.volts <= d.cfg.Battery.Empty {
		d.volts = d.cfg.Battery.Start
	}
}

// report gives what the station reports at now.
func (d *device) report(now time.Time) report {
	d.drain(now)
	r := report{Uptime: d.cfg.Uptime().Milliseconds(), BatteryVoltage: hundredths(d.volts), Firmware: d.cfg.Firmware, Locks: make([]reportLock, len(d.locks))}
	for i, l := range d.locks {
		r.Locks[i] = reportLock{LockID: site.LockID(i + 1).String(), Status: l.status}
	}
	return r
}

func (d *device) statuses() []site.LockStatus {
	out := make([]site.LockStatus, len(d.locks))
	for i, l := range d.locks {
		out[i] = l.status
	}
	return out
}

func (d *device) event(now time.Time, kind Kind, lockID string, id site.CommandID, detail string) Event {
	return Event{Time: site.At(now), Station: d.cfg.ID, Kind: kind, Lock: lockID, Command: id, Detail: detail}
}

func (d *device) command(now time.Time, kind Kind, c command, detail string) Event {
	return d.event(now, kind, c.LockID, c.ID, detail)
}

func (d *device) order(now time.Time, kind Kind, o order, detail string) Event {
	return d.event(now, kind, site.LockID(o.lock+1).String(), o.id, detail)
}
