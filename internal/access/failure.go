package access

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// failureBurst and failureEach bound the failed logins that get a record each,
	// over all addresses: so many at once, and 60 a minute in the long run.
	failureBurst, failureEach = 120, time.Second
	// maxFailing bounds the addresses whose failures are counted apart at a time.
	maxFailing = 64
)

// failures decides which failed logins get a record in the journal. The throttle
// bounds the failures of one address, but an outsider may have many: beyond a bound
// over all, each address gets one record a minute, which counts the failures that it
// stands for. Safe for concurrent use.
type failures struct {
	mu       sync.Mutex   // mu guards what follows
	each     limit.Bucket // of the records for one failure each
	together *limit.Digest[netip.Addr]
}

func newFailures() *failures { return &failures{together: limit.NewDigest[netip.Addr](maxFailing)} }

// note counts a failure and returns the facts of the record that is due, if one is.
func (f *failures) note(address netip.Addr, facts site.Facts, now time.Time) (due site.Facts, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rate := limit.Rate{Burst: failureBurst, Every: failureEach}
	if f.each.Wait(now, rate) == 0 {
		f.each.Take(now, rate)
		return facts, true
	}
	return f.together.Note(address, facts, now)
}

// due returns the facts of the records of failures that were held back for long enough;
// with all, those of every failure that is held back.
func (f *failures) due(now time.Time, all bool) []site.Facts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.together.Due(now, all)
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
	facts, ok := s.failures.note(limit.Network(a.remote), facts, s.clock.Now())
	if !ok {
		return
	}
	if err := s.appendFailure(ctx, facts); err != nil {
		s.log.Warn("failed login is not journalled", "error", err)
	}
}

// writeFailures journals the failed logins that were held back for long enough, or
// all of them. What storage does not take is lost: it is a note of what did not
// happen.
func (s *Service) writeFailures(ctx context.Context, all bool) error {
	for _, facts := range s.failures.due(s.clock.Now(), all) {
		if err := s.appendFailure(ctx, facts); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) appendFailure(ctx context.Context, facts site.Facts) error {
	return s.write(ctx, "journalling failed logins", func(ctx context.Context) error {
		return s.store.AppendRecord(ctx, site.Record{Kind: site.KindLoginFailed, Facts: facts})
	})
}

// remoteText writes a client address for records and lists.
func remoteText(remote netip.Addr) string {
	if !remote.IsValid() {
		return ""
	}
	return remote.String()
}
