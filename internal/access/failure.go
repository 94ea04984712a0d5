package access

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"gatehouse/internal/access/throttle"
	"gatehouse/internal/site"
)

const (
	// failureBurst and failureEach bound the failed logins that get a record each,
	// over all addresses: so many at once, and 60 a minute in the long run.
	failureBurst, failureEach = 120, time.Second
	// failureEvery is how often failed logins from one address get a record that
	// they share, beyond that bound.
	failureEvery = time.Minute
	// maxFailing bounds the addresses whose failures are counted apart at a time; the
	// others share one count.
	maxFailing = 64
)

// failures decides which failed logins get a record in the journal. The throttle
// bounds the failures of one address, but an outsider may have many: beyond a bound
// over all, each address gets one record a minute, which counts the failures that it
// stands for. Safe for concurrent use.
type failures struct {
	mu    sync.Mutex                  // guards what follows
	each  *throttle.Buckets[struct{}] // of the records for one failure each
	since map[netip.Addr]*unwritten   // the invalid address counts all that found no room
}

// unwritten are the failures of one address since the last record that they shared.
type unwritten struct {
	next  time.Time // when the next record may be written
	count int
	facts site.Facts // of the last failure; without an account when they differ
}

func newFailures() *failures {
	return &failures{
		each:  throttle.New[struct{}](failureBurst, failureEach),
		since: make(map[netip.Addr]*unwritten),
	}
}

// note counts a failure and returns the record that is due, if one is.
func (f *failures) note(address netip.Addr, facts site.Facts, now time.Time) (site.Record, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.each.Wait(struct{}{}, now) == 0 {
		f.each.Take(struct{}{}, now)
		return site.Record{Kind: site.KindLoginFailed, Facts: facts}, true
	}
	u := f.entry(address, now)
	if u == f.since[netip.Addr{}] {
		facts.Remote = ""
	}
	if u.count > 0 && u.facts.Account != facts.Account {
		facts.Account, facts.Email = "", ""
	}
	u.facts = facts
	u.count++
	if now.Before(u.next) {
		return site.Record{}, false
	}
	return u.write(now), true
}

// entry returns the entry of address, or the shared one when there is no room.
func (f *failures) entry(address netip.Addr, now time.Time) *unwritten {
	if u := f.since[address]; u != nil {
		return u
	}
	if len(f.since) >= maxFailing {
		f.forgetIdle(now)
	}
	if len(f.since) >= maxFailing {
		address = netip.Addr{}
	}
	u := f.since[address]
	if u == nil {
		u = &unwritten{}
		f.since[address] = u
	}
	return u
}

// forgetIdle drops the entries that hold nothing back.
func (f *failures) forgetIdle(now time.Time) {
	for address, u := range f.since {
		if u.count == 0 && !now.Before(u.next) {
			delete(f.since, address)
		}
	}
}

// due returns the records of failures that were held back for long enough; with all,
// those of every failure that is held back.
func (f *failures) due(now time.Time, all bool) []site.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetIdle(now)
	var records []site.Record
	for _, u := range f.since {
		if u.count > 0 && (all || !now.Before(u.next)) {
			records = append(records, u.write(now))
		}
	}
	return records
}

// write returns the record of all failures since the last one.
func (u *unwritten) write(now time.Time) site.Record {
	rec := site.Record{Kind: site.KindLoginFailed, Facts: u.facts}
	rec.Count = countOf(u.count)
	u.count, u.next = 0, now.Add(failureEvery)
	return rec
}

// recordFailure journals a failed login, or counts it where there are too many; those
// of an IPv6 network are counted together. The record contains the e-mail address only
// if it has an account: otherwise it is a text of the attacker's choice, or a password
// in the wrong field. A record that cannot be written is no error of the login.
func (s *Service) recordFailure(ctx context.Context, a attempt) {
	facts := site.Facts{Origin: site.Local, Remote: remoteText(a.remote)}
	if account, ok := s.dir.byEmail(a.email); ok {
		facts.Account, facts.Email = account.ID, account.Email
	}
	rec, ok := s.failures.note(throttle.Network(a.remote), facts, s.clock.Now())
	if !ok {
		return
	}
	if err := s.append(ctx, rec); err != nil {
		s.log.Warn("failed login is not journalled", "error", err)
	}
}

// writeFailures journals the failed logins that were held back for long enough, or
// all of them. What storage does not take is lost: it is a note of what did not
// happen.
func (s *Service) writeFailures(ctx context.Context, all bool) error {
	for _, rec := range s.failures.due(s.clock.Now(), all) {
		if err := s.append(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) append(ctx context.Context, rec site.Record) error {
	return s.write(ctx, "journalling failed logins", func(ctx context.Context) error {
		return s.store.AppendRecord(ctx, rec)
	})
}

// remoteText writes a client address for records and lists.
func remoteText(remote netip.Addr) string {
	if !remote.IsValid() {
		return ""
	}
	return remote.String()
}
