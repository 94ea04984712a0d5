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
	"gatehouse/internal/site"
)

const (
	// pageSize is how many records are read at once.
	pageSize = 128
	// packEvery is how far apart a backlog goes where its pace holds it up: the records of
	// one pack, each sent alone, would disturb more unlocks.
	packEvery = 100 * time.Millisecond
	// readAgain is how long after a failed read the next is tried.
	readAgain = 5 * time.Second
	// resendFirst and resendMost bound how long an application may acknowledge nothing
	// before records are sent again, each time after twice as long.
	resendFirst = 15 * time.Second
	resendMost  = 10 * time.Minute
	// askAgain is how soon after a record was sent an application that asks for it is sent
	// it again.
	askAgain = 3 * time.Second
	// widest is how many windows may be in flight at once while no application
	// acknowledges, beside what the process before may not have saved. An application that
	// has acknowledged records that this process does not know of may wait for those behind
	// the window: each time it is sent twice as many.
	widest = 16
	// livePerSecond and liveBurst bound the records on [api.LiveLeaf].
	livePerSecond = 5
	liveBurst     = 50
)

// outbox publishes the journal in one session: in order of seq from the cursor on.
type outbox struct {
	*session
	pace   *rate.Limiter
	rest   time.Time // no record is sent before: of the pace, or of a failed read
	lively *rate.Limiter

	page     []journal.Entry // read, not yet sent
	at       uint64          // the last seq that was sent, or is delivered
	unacked  []uint64        // sent, and not acknowledged by the application, in order; a gap counts once
	inFlight int             // sent, and not acknowledged by the broker
	live     uint64          // up to here nothing is live any more

	lastSent time.Time
	taken    time.Time     // when the application last acknowledged, or had everything; later by the time without a connection
	progress time.Time     // when what is not acknowledged was first sent, or sent again
	resend   time.Duration // how long after progress to send again
	windows  int           // that may be in flight
}

func newOutbox(s *session) *outbox {
	return &outbox{
		session: s, at: s.cursor.Load(), live: s.Journal.Latest(), resend: resendFirst, windows: 1, taken: time.Now().Add(-s.silent),
		pace: rate.NewLimiter(rate.Limit(s.settings.PerSecond), max(s.settings.PerSecond, 1)), lively: rate.NewLimiter(livePerSecond, liveBurst),
	}
}

// step sends what there is, and returns when to come back.
func (o *outbox) step(ctx context.Context) time.Duration {
	if len(o.unacked) > 0 && time.Since(o.progress) >= o.resend {
		most := widest + (saveBeyond+3*o.settings.PerSecond)/o.settings.Window
		o.windows, o.resend = min(2*o.windows, most), min(2*o.resend, resendMost)
		o.sendAgain()
	}
	pause := o.fill(ctx)
	o.sendLive(ctx)
	o.judgeWaiting(o.taken, o.sent.Load() > o.cursor.Load())
	return pause
}

// room reports whether more may be in flight.
func (o *outbox) room() bool {
	return o.inFlight < o.settings.Window && len(o.unacked) < o.windows*o.settings.Window
}

// fill sends what there is, as much as may be in flight.
func (o *outbox) fill(ctx context.Context) time.Duration {
	for o.room() && o.at < o.Journal.Latest() && ctx.Err() == nil {
		if wait := time.Until(o.rest); wait > 0 {
			return wait
		}
		switch {
		case len(o.page) > 0:
		case !o.read(ctx):
			o.rest = time.Now().Add(readAgain)
			return readAgain
		default:
			continue
		}
		if !o.pace.Allow() {
			o.rest = time.Now().Add(packEvery)
			return packEvery
		}
		o.sendNext()
	}
	return beat
}

// read reads the next page; false where the journal cannot be read.
func (o *outbox) read(ctx context.Context) bool {
	latest := o.Journal.Latest()
	page, err := o.Store.Outbox(ctx, o.at, pageSize)
	if err != nil {
		if ctx.Err() == nil {
			o.judge(health.CloudUnreadable, fmt.Sprintf("The records after seq %d cannot be read for the cloud, and wait: %s", o.at, err),
				"gatehouse doctor looks at the disk and the database")
		}
		return false
	}
	o.Health.Clear(health.CloudUnreadable)
	if o.page = page; len(page) == 0 {
		o.sendGap(latest)
	}
	return true
}

// sendNext sends the next record of the page, or a gap in its place: storage may have
// damaged it, or it stands for records that were removed.
func (o *outbox) sendNext() {
	entry := o.page[0]
	sound := json.Valid(entry.Body)
	if sound && entry.Seq > o.at+1 {
		o.sendGap(entry.Seq - 1)
		return
	}
	o.page = o.page[1:]
	if !sound {
		o.sendGap(entry.Seq)
		return
	}
	o.sendItem(entry.Seq, entry.Body)
}

// sendGap sends a gap in place of the records up to a seq, which are gone.
func (o *outbox) sendGap(to uint64) { o.sendItem(to, api.Encode(api.NewGap(o.at+1, to))) }

func (o *outbox) sendItem(seq uint64, payload []byte) {
	now := time.Now()
	if len(o.unacked) == 0 {
		o.progress = now
	}
	if o.sent.Load() == o.cursor.Load() { // everything before it was acknowledged
		o.taken = now
	}
	o.sent.Store(max(o.sent.Load(), seq)) // before it is published: the acknowledgement may be quick
	o.inFlight++
	o.send(mqttclient.Message{Topic: api.Topic(o.Gateway, api.JournalLeaf), Payload: payload}, func() {
		o.inFlight--
		if o.settings.BrokerAcks {
			o.delivered(seq)
		}
	})
	if !o.settings.BrokerAcks {
		o.unacked = append(o.unacked, seq)
	}
	o.at, o.lastSent = seq, now
}

// sendLive sends new records at once where older ones still wait.
func (o *outbox) sendLive(ctx context.Context) {
	latest, after := o.Journal.Latest(), max(o.live, o.at)
	o.live = max(latest, after)
	most := int(o.lively.Tokens())
	if latest <= after || most < 1 {
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

// acknowledged notes that an application has everything up to a seq that was sent. It
// returns false for one that acknowledges a record again: it asks for what comes after,
// which is sent again, at once unless that was sent just now.
func (o *outbox) acknowledged(seq uint64) bool {
	switch {
	case o.settings.BrokerAcks:
		return true
	case seq > o.cursor.Load():
		o.delivered(seq)
	case time.Since(o.lastSent) < askAgain:
		o.progress, o.resend = o.lastSent, askAgain
		return false
	default:
		o.sendAgain()
		return false
	}
	for len(o.unacked) > 0 && o.unacked[0] <= seq {
		o.unacked = o.unacked[1:]
	}
	o.progress, o.taken, o.windows, o.resend = time.Now(), time.Now(), 1, resendFirst
	if o.at < seq { // it was sent in an earlier session
		o.at = seq
		for len(o.page) > 0 && o.page[0].Seq <= seq {
			o.page = o.page[1:]
		}
	}
	return true
}

// delivered moves the cursor.
func (o *outbox) delivered(seq uint64) {
	o.cursor.Store(max(o.cursor.Load(), seq))
	o.Link.mu.Lock()
	defer o.Link.mu.Unlock()
	o.status.LastDelivery = site.At(o.Clock.Now())
}

// sendAgain goes back to the cursor.
func (o *outbox) sendAgain() {
	o.at, o.page, o.unacked, o.progress = o.cursor.Load(), nil, nil, time.Now()
}
