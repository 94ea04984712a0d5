package unlock

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// errRepeated refuses an id that was claimed before.
var errRepeated = fault.New(fault.Conflict, "The command came before")

// Claim claims the id of a signed command that is valid until then; the caller passes
// it to [Service.Unlock] as JTI. It does not block. Errors: Conflict for an id that was
// claimed before, also by an earlier run, with the answer so far; Throttled when nothing
// can be claimed now. A command is carried out only with its record, and its id in it, on
// disk: what a restart finds there is all that was carried out.
func (s *Service) Claim(id string, until time.Time) (Answer, error) {
	r, first, err := s.replays.claim(signedCommands, id, time.Now().Add(signedKept), until)
	if err != nil || first {
		return Answer{}, err
	}
	answer, ok := r.ended()
	if !ok {
		answer = Answer{Outcome: site.Requested, Replayed: true}
	}
	return answer, errRepeated
}

// openSigned carries out an unlock whose id is claimed. Errors: Conflict when it is not,
// or was carried out; Unavailable when its record is not durable: nothing was sent, and the
// id may be claimed again.
func (s *Service) openSigned(ctx context.Context, req Request) (Answer, error) {
	return s.Once(req.JTI, func() (answer Answer, done bool, err error) {
		answer = s.open(ctx, req)
		if answer.unrecorded {
			err = fault.New(fault.Unavailable, "The storage takes no writes: signed commands are not carried out without a durable record")
		}
		return answer, !answer.unrecorded, err
	})
}

// Once carries out a signed command whose id is claimed by calling carry, and returns what
// that does. If carry has not done anything, the id may be claimed again. Of a command that
// opens no door, carry writes the records: of [site.KindUpdate], with the id as JTI. Conflict
// when the id is not claimed, or the command was carried out.
func (s *Service) Once(id string, carry func() (answer Answer, done bool, err error)) (Answer, error) {
	r := s.replays.begin(id)
	if r == nil {
		return Answer{}, errRepeated
	}
	answer := Answer{Outcome: site.Unresolved} // of a panic
	defer func() {
		answer.Ended = s.Clock.Now()
		r.end(answer)
	}()
	answer, done, err := carry()
	if !done {
		s.replays.release(signedCommands, id)
	}
	return answer, err
}

// doubt refuses signed commands after the journal was restored from a backup or lost
// records, which was age ago: for as long as a command that was carried out before that
// may be valid.
func (rs *replays) doubt(age time.Duration) {
	if age < signedLife {
		rs.incomplete = time.Now().Add(signedLife)
	}
}

// Interrupted returns the ids of the signed commands that an earlier run had not ended.
func (s *Service) Interrupted() []string { return slices.Clone(s.interrupted) }
