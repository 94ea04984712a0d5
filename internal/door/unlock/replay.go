package unlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// keyLife is how long a key returns its first answer (contract, section 1).
	keyLife = 10 * time.Minute
	// maxKeys bounds the keys that one account can keep alive; past it the account
	// has to wait.
	maxKeys = 1000
)

// replay is the first answer to one key, once done is closed.
type replay struct {
	done    chan struct{}
	answer  Answer
	expires time.Time
}

// replays remembers keys by their digest, an account's apart from another's.
type replays struct {
	mu        sync.Mutex // mu guards what follows
	byAccount map[site.AccountID]map[string]*replay
}

func newReplays() *replays {
	return &replays{byAccount: make(map[site.AccountID]map[string]*replay)}
}

// keyDigest names a key of an account for one lock, so that the journal need not
// hold what the client chose.
func keyDigest(req Request) string {
	h := sha256.New()
	for _, part := range []string{string(req.Actor.Account), req.Station.String(), strconv.Itoa(int(req.Lock)), req.IdempotencyKey} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// openOnce opens for the first request with a key and returns its answer to the others.
// Where the first one's client had gone and nothing was sent, the next one is the first.
func (s *Service) openOnce(ctx context.Context, req Request) (Answer, error) {
	digest := keyDigest(req)
	for {
		r, first, err := s.replays.claim(req.Actor.Account, digest, time.Now())
		if err != nil {
			s.Metrics.Refused("idempotency-keys")
			return Answer{}, err
		}
		if first {
			r.answer = s.open(ctx, req)
			if r.answer.gone {
				s.replays.release(req.Actor.Account, digest)
			}
			close(r.done)
			return r.answer, nil
		}
		select {
		case <-r.done:
			if r.answer.gone {
				continue
			}
			answer := r.answer
			answer.Replayed = true
			return answer, nil
		case <-ctx.Done():
			return Answer{}, fault.Wrap(fault.Timeout, "An earlier request with this Idempotency-Key is still under way", ctx.Err())
		}
	}
}

// claim returns the replay of a key, and whether the caller is the first and has to
// fill it in.
func (rs *replays) claim(account site.AccountID, digest string, now time.Time) (r *replay, first bool, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, ok := rs.byAccount[account][digest]; ok && now.Before(r.expires) {
		return r, false, nil
	}
	if len(rs.byAccount[account]) >= maxKeys {
		rs.forget(account, now)
	}
	keys := rs.byAccount[account]
	if len(keys) >= maxKeys {
		return nil, false, fault.Throttle("Too many Idempotency-Keys in ten minutes", keyLife/10)
	}
	if keys == nil {
		keys = make(map[string]*replay)
		rs.byAccount[account] = keys
	}
	r = &replay{done: make(chan struct{}), expires: now.Add(keyLife)}
	keys[digest] = r
	return r, true, nil
}

// answer returns the first answer to the key of req, if it has one and there is an
// answer already.
func (rs *replays) answer(req Request) (answer Answer, ok bool) {
	if req.IdempotencyKey == "" {
		return Answer{}, false
	}
	digest := keyDigest(req)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.byAccount[req.Actor.Account][digest]
	if !ok || !req.Accepted.Before(r.expires) {
		return Answer{}, false
	}
	select {
	case <-r.done:
		answer = r.answer
		answer.Replayed = true
		return answer, !r.answer.gone
	default:
		return Answer{}, false
	}
}

// release releases a key for the next request.
func (rs *replays) release(account site.AccountID, digest string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byAccount[account], digest)
}

// sweep forgets the keys whose time is over, account by account, so that unlocks wait for
// one account's keys at most.
func (rs *replays) sweep(now time.Time) {
	rs.mu.Lock()
	accounts := slices.Collect(maps.Keys(rs.byAccount))
	rs.mu.Unlock()
	for _, account := range accounts {
		rs.mu.Lock()
		rs.forget(account, now)
		rs.mu.Unlock()
	}
}

// forget drops the keys of an account whose time is over; mu is held. A map keeps its
// memory, so the rest of a large one moves to a new one.
func (rs *replays) forget(account site.AccountID, now time.Time) {
	keys := rs.byAccount[account]
	before := len(keys)
	maps.DeleteFunc(keys, func(_ string, r *replay) bool { return !now.Before(r.expires) })
	switch {
	case len(keys) == 0:
		delete(rs.byAccount, account)
	case len(keys) < before/2:
		rs.byAccount[account] = maps.Clone(keys)
	}
}

// restore adds the answer of an earlier run. The last one of a key counts: if a key was
// released, only that request was sent.
func (rs *replays) restore(account site.AccountID, digest string, answer Answer, expires time.Time) {
	r, first, err := rs.claim(account, digest, time.Now())
	if err != nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.answer, r.expires = answer, expires
	if first {
		close(r.done)
	}
}

// remember reads the newest unlocks: their keys, so that a retry over a restart
// sends nothing again; their ids, so that late answers find them; and those without
// an outcome, to which it gives the outcome "unknown".
func (s *Service) remember(ctx context.Context) error {
	records, err := s.Journal.RecentUnlocks(ctx, keyLife)
	if err != nil {
		return err
	}
	answered := make(map[site.CommandID]bool)
	ages := s.ages(records)
	for i, r := range records {
		s.rememberSigned(r)
		switch {
		case r.Kind == site.KindRestored, r.Kind == site.KindRecordsLost:
			s.signed.doubt(ages[i])
		case r.Outcome == site.Requested:
			s.rememberCommand(r)
		case r.Detail == detailTooLate: // this record, not the first outcome, was the client's answer
			r.Outcome = site.Expired
			s.rememberKey(r, ages[i])
		case !answered[r.Command]: // the first outcome was the client's answer
			answered[r.Command] = true
			s.commands.end(r.Command, r.Outcome)
			s.rememberKey(r, ages[i])
		}
	}
	for i, r := range records {
		if r.Outcome == site.Requested && !answered[r.Command] {
			r = unresolved(r)
			s.commands.end(r.Command, r.Outcome)
			s.rememberKey(r, ages[i])
			s.rememberInterrupted(r)
			s.Journal.AppendLater(site.Record{Kind: site.KindUnlock, Facts: r.Facts})
		}
	}
	return nil
}

// age is how long ago a record was written. The clock may read less now than then,
// where it was not trusted.
func (s *Service) age(r site.Record) time.Duration { return max(s.Clock.Now().Sub(r.Time.Time), 0) }

func (s *Service) rememberCommand(r site.Record) {
	lock, err := site.ParseLockID(r.Lock)
	if err != nil {
		return
	}
	s.commands.add(site.Command{
		ID: r.Command, Station: r.Station, Lock: lock, Deadline: time.Now().Add(time.Duration(s.ttl.Load()) - s.age(r)),
	}, r.Facts)
}

// ages gives how old each record is, the oldest first. A clock that was not trusted may have
// stepped since, and stood differently in another run: what it stamped is as old as the
// record after it, and older by what passed between them where that one was stamped so in
// the same run. A key rather lives too long.
func (s *Service) ages(records []site.Record) []time.Duration {
	ages := make([]time.Duration, len(records))
	var age time.Duration
	after := site.Record{ClockTrusted: true}
	for i, r := range slices.Backward(records) {
		switch {
		case r.ClockTrusted:
			age = s.age(r)
		case !after.ClockTrusted && after.Boot == r.Boot:
			age += after.Time.Sub(r.Time.Time)
		}
		ages[i], after = age, r
	}
	return ages
}

// rememberKey puts the answer to a key of that age in place.
func (s *Service) rememberKey(r site.Record, age time.Duration) {
	left := keyLife - age
	lock, err := site.ParseLockID(r.Lock)
	if r.IdempotencyKey == "" || left <= 0 || err != nil || r.Detail == detailGone {
		return
	}
	answer := Answer{Command: r.Command, Station: r.Station, Lock: lock, Outcome: r.Outcome}
	s.replays.restore(r.Account, r.IdempotencyKey, answer, time.Now().Add(left))
}

// detailUnresolved is the detail of an unlock whose outcome was not recorded. It claims
// no more than is known: an outcome is written after the answer, so the client may have
// received a success.
const detailUnresolved = "the gateway ended before an outcome was recorded: the door may have opened, and the client may have been told so"

func unresolved(r site.Record) site.Record {
	r.Outcome = site.Unresolved
	r.Detail = detailUnresolved
	return r
}
