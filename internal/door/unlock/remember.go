package unlock

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/site"
)

// remember reads the newest unlocks: their keys and the ids of signed commands, so that
// none is carried out again after a restart; the ids of commands, so that late answers find
// them; and those without an outcome, which get the outcome "unknown".
func (s *Service) remember(ctx context.Context) error {
	records, err := s.Journal.RecentUnlocks(ctx, keyLife)
	if err != nil {
		return err
	}
	answered := make(map[site.CommandID]bool)
	ages := s.ages(records)
	for i, r := range records {
		switch {
		case r.Kind == site.KindRestored, r.Kind == site.KindRecordsLost:
			s.replays.doubt(ages[i])
		case r.Command == "": // a refusal: nothing was carried out, and its id is free
		case r.Outcome == site.Requested && r.Kind == site.KindUpdate:
		case r.Outcome == site.Requested:
			s.rememberCommand(r)
		case r.Detail == detailTooLate: // this record, not the first outcome, was the client's answer
			r.Outcome = site.Expired
			s.rememberAnswer(r, ages[i])
		case !answered[r.Command]: // the first outcome was the client's answer
			answered[r.Command] = true
			s.commands.end(r.Command, r.Outcome)
			s.rememberAnswer(r, ages[i])
		}
	}
	for i, r := range records {
		if r.Outcome == site.Requested && !answered[r.Command] {
			r.Outcome, r.Detail = site.Unresolved, detailUnresolved
			if r.Kind == site.KindUpdate {
				r.Detail = detailUnasked
			}
			s.commands.end(r.Command, r.Outcome)
			s.rememberAnswer(r, ages[i])
			if r.JTI != "" {
				s.interrupted = append(s.interrupted, r.JTI)
			}
			s.Journal.AppendLater(site.Record{Kind: r.Kind, Facts: r.Facts})
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

// ages returns how old each record is, the oldest first. A clock that was not trusted may have
// stepped since, and stood differently in another run: what it stamped is as old as the
// record after it, and older by what passed between them where that one was stamped so in
// the same run. So a key may live too long, but never too short.
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

// rememberAnswer remembers the answer to a command of that age, if it had a key or a signed
// id. The last answer of a key counts: if a key was released, only that request was sent.
// Of a signed command the first one counts that is no refusal: a refused one may be sent
// again, as after a full disk.
func (s *Service) rememberAnswer(r site.Record, age time.Duration) {
	lock, err := site.ParseLockID(r.Lock)
	if err != nil && r.Kind == site.KindUnlock {
		return
	}
	answer := Answer{Command: r.Command, Station: r.Station, Lock: lock, Outcome: r.Outcome, Message: messageOf(r.Detail)}
	rs := s.replays
	rs.mu.Lock()
	defer rs.mu.Unlock()
	left := keyLife - age
	if r.IdempotencyKey != "" && left > 0 && r.Detail != detailGone && len(rs.byAccount[r.Account]) < maxKeys {
		rs.add(r.Account, r.IdempotencyKey, time.Now().Add(left), time.Time{}).end(answer)
	}
	if before := rs.byAccount[signedCommands][r.JTI]; r.JTI != "" && (before == nil || before.answer.Outcome == site.Refused) {
		answer.Ended = r.Time.Time
		signed := rs.add(signedCommands, r.JTI, time.Now().Add(signedKept), r.Time.Add(signedLife))
		signed.begun = true
		signed.end(answer)
	}
}

// detailUnresolved is the detail of an unlock whose outcome was not recorded. It claims
// no more than is known: an outcome is written after the answer, so the client may have
// received a success.
const detailUnresolved = "the gateway ended before an outcome was recorded: the door may have opened, and the client may have been told so"

// detailUnasked is the same of an update of the system.
const detailUnasked = "the gateway ended before it recorded whether root was asked for the update"
