package cloudapp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

const (
	// maxAhead bounds the items that wait for one before them: twice the widest window of
	// a gateway (cloud.window).
	maxAhead = 2000
	// askEvery is how often a gateway is asked to send again what is missing.
	askEvery = 2 * time.Second
)

// Item is one message on [api.JournalLeaf]: a record, or a gap that replaces several.
type Item struct {
	From, To uint64 // of a record both are its seq
	Record   site.Record
	Payload  []byte // as it came
}

// Reader puts the journal of one gateway into order, as an application has to: items come
// again after a connection was lost, and may overtake each other. It returns each item
// once, in order of seq, and says what to acknowledge. It does no input or output and is
// not safe for concurrent use. Its zero value is not usable: see [NewReader].
type Reader struct {
	next  uint64 // the first seq that was not returned; 0 before the gateway's first status
	since time.Time
	boot  site.BootID
	read  map[site.BootID]uint64 // the highest seq returned, of each start of the gateway; "" for gaps
	ahead map[uint64]Item        // what cannot be returned yet, by From

	unsaid bool      // something came that was not acknowledged
	ask    bool      // the gateway is to send again
	asked  time.Time // when it was last asked
}

// NewReader returns the Reader of an application that has read nothing.
func NewReader() *Reader {
	return &Reader{read: make(map[site.BootID]uint64), ahead: make(map[uint64]Item), ask: true}
}

// Reconnected notes that the application has a new connection: what was sent meanwhile is
// asked for.
func (r *Reader) Reconnected() { r.ask = true }

// Status takes a status of the gateway. It says where the journal begins for a new
// application, and where it goes on when the gateway has a new connection: a gateway that
// was restored from a backup begins at a lower seq.
func (r *Reader) Status(s api.Status) []Item {
	if s.Journal == nil || s.Since == nil || s.Journal.Next == 0 || s.Boot == r.boot && s.Since.Before(r.since) {
		return nil
	}
	if s.Boot != r.boot || s.Since.After(r.since) || s.Journal.Next > r.next {
		r.boot, r.since, r.next = s.Boot, s.Since.Time, s.Journal.Next
	}
	maps.DeleteFunc(r.ahead, func(_ uint64, i Item) bool { return i.To < r.next })
	return r.drain(nil)
}

// Journal takes a payload that came on [api.JournalLeaf] and returns the items that follow now.
func (r *Reader) Journal(payload []byte) ([]Item, error) {
	item, err := parseItem(payload)
	switch {
	case err != nil:
		return nil, err
	case r.next != 0 && item.From <= r.next && r.next <= item.To:
		return r.drain(r.add(nil, item)), nil
	case item.To < r.next && item.To <= r.read[item.Record.Boot]:
		r.unsaid = true // the gateway does not know that it was acknowledged
	case len(r.ahead) < maxAhead:
		r.ahead[item.From] = item
	}
	return nil, nil
}

// drain appends what follows of the items that are ahead.
func (r *Reader) drain(items []Item) []Item {
	for item, ok := r.ahead[r.next]; ok; item, ok = r.ahead[r.next] {
		delete(r.ahead, r.next)
		items = r.add(items, item)
	}
	return items
}

// add appends the next item, unless it was returned before.
func (r *Reader) add(items []Item, item Item) []Item {
	r.next, r.unsaid = item.To+1, true
	if boot := item.Record.Boot; item.To > r.read[boot] {
		r.read[boot] = item.To
		items = append(items, item)
	}
	return items
}

// Acknowledge returns what to publish on [api.AckLeaf], if something is due: the last seq
// before which nothing is missing, or 0, which asks the gateway to send again.
func (r *Reader) Acknowledge(now time.Time) (ack api.Ack, due bool) {
	missing := len(r.ahead) > 0 && now.Sub(r.asked) >= askEvery
	switch {
	case r.unsaid:
		r.unsaid = false
		return api.Ack{Seq: r.next - 1}, true
	case r.ask, missing:
		r.ask, r.asked = false, now
		return api.Ack{}, true
	}
	return api.Ack{}, false
}

// parseItem reads a payload of the journal.
func parseItem(payload []byte) (Item, error) {
	i := Item{Payload: payload}
	if err := json.Unmarshal(payload, &i.Record); err != nil {
		return Item{}, fmt.Errorf("reading a record: %w", err)
	}
	i.From, i.To = i.Record.Seq, i.Record.Seq
	switch {
	case i.To == 0 || i.To > math.MaxInt64 || i.Record.Kind == "":
		return Item{}, errors.New("reading a record: it has no valid seq or no kind")
	case i.Record.Kind != site.KindGap || i.Record.Boot != "":
		return i, nil
	case i.Record.From < 1 || i.Record.From > i.Record.To || i.Record.To != i.To:
		return Item{}, fmt.Errorf("reading a gap: from %d to %d as record %d", i.Record.From, i.Record.To, i.To)
	}
	i.From = i.Record.From
	return i, nil
}
