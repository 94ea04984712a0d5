package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// page is how many records are read at once.
const page = 256

// maxKinds bounds the kinds of one query.
const maxKinds = 64

// journalQuery is a query with what the journal does not know of.
type journalQuery struct {
	journal.Query
	left   int // records still to send; negative: no limit
	tail   int // begin with so many of the newest; 0: with the oldest
	follow bool
	csv    bool // all of them, as CSV
}

// maxTail bounds how many records are sent before those that follow.
const maxTail = 1000

// journal streams the records that the query selects, oldest first, and with
// follow continues with new ones. With tail it begins with the newest so many.
func (a *API) journal(x *kit.Exchange) error {
	q, err := parseJournalQuery(x.Req.URL.Query())
	if err != nil {
		return err
	}
	if q.csv {
		return x.Follow(kit.Table(), nil, func(s *kit.Stream) error {
			table := journal.NewCSV(sender{s})
			return errors.Join(a.sendJournal(x.Req.Context(), s, q, table.Record), table.End())
		})
	}
	return x.Follow(kit.Lines(), nil, func(s *kit.Stream) error {
		return a.sendJournal(x.Req.Context(), s, q, func(r site.Record) error { return s.SendLine(r) })
	})
}

// sender writes to a stream.
type sender struct{ *kit.Stream }

// Write implements [io.Writer].
func (s sender) Write(p []byte) (int, error) { return len(p), s.Send(p) }

func (a *API) sendJournal(ctx context.Context, s *kit.Stream, q journalQuery, send func(site.Record) error) error {
	var wake <-chan struct{}
	if q.follow {
		var cancel func()
		wake, cancel = a.Journal.Subscribe()
		defer cancel()
	}
	for q.left != 0 {
		latest := a.Journal.Latest() // before reading: what is written later wakes the stream
		q.Limit, q.Newest = page, q.tail > 0
		switch {
		case q.Newest:
			q.Limit = q.tail
		case q.left > 0:
			q.Limit = min(page, q.left)
		}
		records, err := a.Journal.Read(ctx, q.Query)
		if err == nil && q.Newest {
			err = s.SendLine(JournalStart{WatchStart: kit.WatchStart{Time: site.At(a.Clock.Now()), Count: len(records)}, Last: latest})
		}
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := send(record); err != nil {
				return err
			}
			q.AfterSeq = record.Seq
			q.left--
		}
		if s.Over() {
			return nil
		}
		if len(records) == q.Limit && !q.Newest {
			continue // there may be another page
		}
		q.tail = 0
		q.AfterSeq = max(q.AfterSeq, latest)
		if !q.follow || !s.Wait(wake) {
			return nil
		}
	}
	return nil
}

// parseJournalQuery reads the parameters of the journal; kind any number of times.
func parseJournalQuery(v url.Values) (q journalQuery, err error) {
	q.left = -1
	known := map[string]func(text string) error{
		"after": into(&q.AfterSeq, parseSeq), "before": into(&q.BeforeSeq, parseSeq),
		"since": into(&q.Since, parseTime), "until": into(&q.Until, parseTime),
		"station": into(&q.Station, site.ParseStationID), "account": into(&q.Account, site.ParseEmail),
		"kind":  func(text string) error { q.Kinds = append(q.Kinds, site.Kind(text)); return nil },
		"limit": into(&q.left, parseCount), "tail": into(&q.tail, parseCount),
		"follow": into(&q.follow, strconv.ParseBool), "csv": into(&q.csv, strconv.ParseBool),
	}
	for key, values := range v {
		read, ok := known[key]
		switch {
		case !ok:
			return q, fault.New(fault.Invalid, fmt.Sprintf("The query has no %q: it knows after, before, since, until, station, account, kind, limit, tail, follow and csv", site.Clip(key)))
		case len(values) > 1 && key != "kind":
			return q, fault.New(fault.Invalid, fmt.Sprintf("%q is in the query twice", key))
		case len(values) > maxKinds:
			return q, fault.New(fault.Invalid, "Too many kinds")
		}
		for _, text := range values {
			if err := read(text); err != nil {
				return q, fault.Wrap(fault.Invalid, fmt.Sprintf("%q is no good value of %q", site.Clip(text), key), err)
			}
		}
	}
	q.tail = min(q.tail, maxTail)
	switch {
	case q.follow && !q.Until.IsZero():
		err = fault.New(fault.Invalid, `"follow" and "until" do not go together`)
	case q.follow && q.BeforeSeq > 0:
		err = fault.New(fault.Invalid, `"follow" and "before" do not go together`)
	case q.left >= 0 && q.tail > 0:
		err = fault.New(fault.Invalid, `"limit" and "tail" do not go together`)
	case q.csv && (q.follow || q.tail > 0):
		err = fault.New(fault.Invalid, `"csv" goes with neither "follow" nor "tail"`)
	}
	return q, err
}

// into returns a function that parses a text into a field.
func into[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*field, err = parse(text)
		return err
	}
}

func parseSeq(text string) (uint64, error) { return strconv.ParseUint(text, 10, 63) }

func parseTime(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }

func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err //nolint:gosec // 31 bits fit
}

// verify checks the whole journal.
func (a *API) verify(r *request) (any, error) {
	return a.check(func() (any, error) {
		v, err := a.Journal.Verify(r.Context())
		return Verdict{Sound: v.Broken == 0, Verdict: v}, err
	})
}

// database checks the pages of the database.
func (a *API) database(r *request) (any, error) {
	return a.check(func() (any, error) { return a.Database(r.Context()) })
}

// check runs a check of the whole journal or database, for one caller at a time.
func (a *API) check(run func() (any, error)) (any, error) {
	if !a.checking.TryLock() {
		return nil, fault.Throttle("The database or its journal is being checked already", retry)
	}
	defer a.checking.Unlock()
	return run()
}

// testify compares witnesses with the journal.
func (a *API) testify(r *request, in Witnesses) (any, error) {
	all, err := a.Journal.Testify(r.Context(), in.Witnesses)
	return map[string][]journal.Testimony{"witnesses": append([]journal.Testimony{}, all...)}, err
}
