package link

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
	"gatehouse/internal/record/journal"
)

const (
	// pageSize is how many records are read at once.
	pageSize = 128
	// breath is how long after new records the next are not looked at: many at once
	// cost the doors less, taken together.
	breath = 10 * time.Millisecond
	// maxRecord bounds a record, in bytes; no sound one comes near it.
	maxRecord = 256 << 10
	// packEvery is how far apart a backlog goes where its pace holds it up: the records of
	// one pack, each sent alone, would disturb more unlocks.
	packEvery = 100 * time.Millisecond
	// readAgain is how long after a failed read the next is tried.
	readAgain = 5 * time.Second
	// resendLeast and resendMost bound how long an application may say nothing before
	// what it has not acknowledged is sent again, each time after twice as long.
	// One that goes on acknowledging is waited for up to resendSlow.
	resendLeast = 5 * time.Second
	resendSlow  = 30 * time.Second
	resendMost  = 10 * time.Minute
	// askAgain is how soon an application that acknowledges what it has acknowledged
	// before, which asks for what comes after, is sent that again.
	askAgain = 3 * time.Second
	// widest is how many windows may be in flight at once while no application
	// acknowledges. An application that has acknowledged records that this process does
	// not know of may wait for those behind the window: each time it is sent twice as
	// many.
	widest = 16
	// livePerSecond and liveBurst bound the lane of live records.
	livePerSecond = 5
	liveBurst     = 50
)

// outbox hands the journal up in one session: in order of seq from the cursor on. Its
// own goroutine does it all.
type outbox struct {
	*session
	pace   *rate.Limiter
	rest   time.Time // the pace allows no record before
	lively *rate.Limiter

	page    []journal.Entry // read, not yet sent
	at      uint64          // the last seq that was sent, or is delivered
	unacked []uint64        // sent, and not acknowledged by the application, in order
	flight  flight[uint64]  // their seqs: sent, and not acknowledged by the broker
	live    uint64          // up to here nothing is live any more

	unread   bool // the journal could not be read at the last try
	lastSent time.Time
	taken    time.Time     // when the application last took something, or had it all; later by the time without a connection
	progress time.Time     // when what it has not taken was first sent, or sent again
	resend   time.Duration // how long after progress to send again
	windows  int           // that may be in flight
	wanted   bool          // the application has asked for the next resend
}

func newOutbox(s *session) *outbox {
	return &outbox{
		session: s, at: s.cursor.Load(), live: s.Journal.Latest(), resend: resendLeast, windows: 1, taken: time.Now().Add(-s.silent),
		pace: rate.NewLimiter(rate.Limit(s.settings.PerSecond), max(s.settings.PerSecond, 1)), lively: rate.NewLimiter(livePerSecond, liveBurst),
	}
}

// run sends until ctx ends, or fails when the connection is of no use any more.
func (o *outbox) run(ctx context.Context) error {
	wake, cancel := o.Journal.Subscribe()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() { o.silent = time.Since(o.taken) }()
	for listen := wake; ; {
		pause := min(o.fill(ctx), o.due())
		o.sendLive(ctx)
		o.judgeWaiting(o.taken, o.sent.Load() > o.cursor.Load())
		if listen == nil {
			pause = min(pause, breath)
		}
		timer.Reset(max(pause, time.Millisecond))
		select {
		case <-ctx.Done():
			return nil
		case <-listen:
			listen = nil
		case <-o.acks.wake:
			o.acknowledged(o.acks.highest.Load())
		case <-o.flight.arrived():
			if err := o.confirm(); err != nil {
				return err
			}
		case <-timer.C:
			listen = wake
			if err := o.overdue(); err != nil {
				return err
			}
		}
	}
}

// room reports whether more may be on its way.
func (o *outbox) room() bool {
	return len(o.flight.all) < o.settings.Window && len(o.unacked) < o.windows*o.settings.Window
}

// fill sends what there is, as much as may be on its way, and says when to come back;
// far off when nothing but a signal can change that.
func (o *outbox) fill(ctx context.Context) time.Duration {
	for o.room() && o.at < o.Journal.Latest() && ctx.Err() == nil {
		if len(o.page) == 0 {
			latest := o.Journal.Latest()
			page, err := o.Store.Outbox(ctx, o.at, pageSize)
			if err != nil {
				if ctx.Err() == nil {
					o.unreadable(err)
				}
				return readAgain
			}
			o.readable()
			if o.page = page; len(page) == 0 {
				o.sendGap(latest)
				continue
			}
		}
		if delay := o.hold(time.Now()); delay > 0 {
			return delay
		}
		o.sendNext()
	}
	return resendMost
}

// hold says how long the next record has to wait for its turn; where it has none, the
// pace counts it.
func (o *outbox) hold(now time.Time) time.Duration {
	if delay := o.rest.Sub(now); delay > 0 {
		return delay
	}
	reservation := o.pace.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		reservation.CancelAt(now)
		delay = max(delay, packEvery)
		o.rest = now.Add(delay)
	}
	return delay
}

// unreadable says that the journal cannot be read; once in the log until it can.
func (o *outbox) unreadable(err error) {
	if !o.unread {
		o.Logger.Error("the cloud link cannot read the journal; records wait", "after", o.at, "error", err)
	}
	o.unread = true
	o.Health.Raise(health.Condition{
		Code: health.CloudUnreadable, Severity: health.Warning,
		Summary: fmt.Sprintf("The records after seq %d cannot be read for the cloud, and wait: %s", o.at, err),
		Advice:  "gatehouse doctor looks at the disk and the database",
	})
}

func (o *outbox) readable() {
	o.unread = false
	o.Health.Clear(health.CloudUnreadable)
}

// sendNext sends the next record of the page, or what stands in its place.
func (o *outbox) sendNext() {
	entry := o.page[0]
	if entry.Seq > o.at+1 {
		o.sendGap(entry.Seq - 1)
		return
	}
	o.page = o.page[1:]
	if len(entry.Body) > maxRecord || !json.Valid(entry.Body) {
		o.sendGap(entry.Seq)
		return
	}
	o.send(entry.Seq, entry.Body)
}

// sendGap says that the records up to a seq are gone.
func (o *outbox) sendGap(to uint64) { o.send(to, api.Encode(api.NewGap(o.at+1, to))) }

func (o *outbox) send(seq uint64, payload []byte) {
	now := time.Now()
	if len(o.unacked) == 0 {
		o.progress = now
	}
	if o.sent.Load() == o.cursor.Load() { // everything before it was taken
		o.taken = now
	}
	raise(&o.sent, seq) // before it is on its way: the acknowledgement may be quick
	o.flight.add(o.conn.Publish(mqttclient.Message{
		Topic: api.Topic(o.Gateway, api.JournalLeaf), QoS: 1, Payload: payload,
	}), seq)
	if !o.settings.BrokerAcks {
		o.unacked = append(o.unacked, seq)
	}
	o.at, o.lastSent = seq, now
}

// sendLive sends new records at once where older ones still wait.
func (o *outbox) sendLive(ctx context.Context) {
	latest := o.Journal.Latest()
	o.live = max(o.live, o.at)
	if latest <= o.live {
		return
	}
	after := o.live
	o.live = latest
	most := int(o.lively.Tokens())
	if most < 1 {
		return
	}
	entries, err := o.Store.Outbox(ctx, max(after, latest-min(latest, uint64(most))), most)
	if err != nil {
		return // they come in their turn
	}
	for _, entry := range entries {
		if o.lively.Allow() {
			o.conn.Publish(mqttclient.Message{Topic: api.Topic(o.Gateway, api.LiveLeaf), Payload: entry.Body})
		}
	}
}

// confirm takes the broker's acknowledgement of the oldest message, or why there will be
// none.
func (o *outbox) confirm() error {
	seq, err := o.flight.land()
	if err == nil && o.settings.BrokerAcks {
		o.delivered(seq)
	}
	return err
}

// acknowledged takes the application's word that it has everything up to a seq: as far
// as that was ever sent, so that a word which was meant for another journal, before
// this one was restored from a backup, loses nothing.
func (o *outbox) acknowledged(seq uint64) {
	seq = min(seq, o.sent.Load())
	if o.settings.BrokerAcks {
		return
	}
	if seq <= o.cursor.Load() {
		o.answer()
		return
	}
	o.delivered(seq)
	for len(o.unacked) > 0 && o.unacked[0] <= seq {
		o.unacked = o.unacked[1:]
	}
	// One that takes its time, and many records at once, is given twice as long as it took.
	o.resend = min(max(2*time.Since(o.taken), resendLeast), resendSlow)
	o.progress, o.taken, o.windows = time.Now(), time.Now(), 1
	if o.at < seq { // it was sent in an earlier session
		o.at = seq
		for len(o.page) > 0 && o.page[0].Seq <= seq {
			o.page = o.page[1:]
		}
	}
}

// delivered moves the cursor.
func (o *outbox) delivered(seq uint64) {
	raise(&o.cursor, seq)
	o.acknowledgedNow()
}

// sendAgain goes back to the cursor.
func (o *outbox) sendAgain() {
	o.at, o.page, o.unacked = o.cursor.Load(), nil, nil
	o.progress, o.wanted = time.Now(), false
}

// answer answers an application that acknowledges a record again: it publishes the
// status, which names the next record, and sends the unacknowledged records again, soon
// if they were sent just now, else at once.
func (o *outbox) answer() {
	o.session.asked.Store(true)
	if len(o.unacked) == 0 {
		return
	}
	if time.Since(o.lastSent) < askAgain {
		o.progress, o.resend, o.wanted = o.lastSent, askAgain, true
		return
	}
	o.sendAgain()
}

// due is when overdue has something to do next.
func (o *outbox) due() time.Duration {
	due, _ := o.flight.patience()
	if len(o.unacked) > 0 {
		due = min(due, time.Until(o.progress.Add(o.resend)))
	}
	return due
}

// overdue gives up a broker that says nothing, and sends again what an application
// said nothing of.
func (o *outbox) overdue() error {
	if len(o.unacked) > 0 && time.Since(o.progress) >= o.resend {
		if !o.wanted {
			o.windows = min(2*o.windows, widest)
		}
		o.sendAgain()
		o.resend = min(2*o.resend, resendMost)
	}
	_, err := o.flight.patience()
	return err
}
