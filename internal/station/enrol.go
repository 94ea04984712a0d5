package station

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// maxName is the longest name of a station, in characters.
const maxName = 100

// What administrative records say beside their kind.
const (
	detailName      = "name changed"
	detailLocks     = "number of locks changed"
	detailBoth      = "name and number of locks changed"
	detailToken     = "station token changed"
	detailGenerated = "a new secret was generated"
	detailGiven     = "a given secret was set"
)

// EnrolRequest is a station to be enrolled. Secret and Token are generated when
// they are empty.
type EnrolRequest struct {
	ID     site.StationID
	Name   string      // for people; may be empty; at most 100 characters
	Locks  int         // 1 to [site.MaxLocks]
	Secret site.Secret // 12 to 128 printable ASCII characters
	Token  site.Secret // 8 to 128 letters, digits and . _ ~ -
}

// Enrolled is a new station with the words that are shown this once.
type Enrolled struct {
	Station site.Station
	Token   site.Secret
	Secret  site.Secret
}

// Enrol adds a station. It fails with [fault.Invalid] when the request cannot be
// right, [fault.Conflict] when the id or the token is taken, and
// [fault.Unavailable] when it cannot be stored.
func (s *Service) Enrol(ctx context.Context, by site.Actor, r EnrolRequest) (Enrolled, error) {
	r, err := r.complete()
	if err != nil {
		return Enrolled{}, err
	}
	s.admin.Lock()
	defer s.admin.Unlock()
	if err := s.checkFree(r); err != nil {
		return Enrolled{}, err
	}
	st := site.Station{
		ID: r.ID, Name: r.Name, Locks: r.Locks, Token: r.Token,
		Secret: hashSecret(r.Secret), Enrolled: site.At(s.clock.Now()).Time,
	}
	err = s.write(ctx, func(ctx context.Context) error {
		return s.store.AddStation(ctx, st, record(site.KindStationAdded, by, st.ID, ""))
	})
	if err != nil {
		return Enrolled{}, fmt.Errorf("enrolling station %s: %w", st.ID, err)
	}
	s.put(newLive(st, s.generations.Add(1)))
	_ = s.transition(st.ID, func(_ *live, e *effect, _ time.Time) { e.event = true })
	return Enrolled{Station: st, Token: r.Token, Secret: r.Secret}, nil
}

// complete checks the request and generates what is not given.
func (r EnrolRequest) complete() (EnrolRequest, error) {
	if r.Secret == "" {
		r.Secret = newSecret()
	}
	if r.Token == "" {
		r.Token = newToken()
	}
	if !r.ID.Valid() {
		return r, fault.New(fault.Invalid, fmt.Sprintf("A station id is a number from 1 to %d", site.MaxStationID))
	}
	var err error
	if r.Name, err = cleanName(r.Name); err != nil {
		return r, err
	}
	for _, err := range []error{checkLocks(r.Locks), checkSecret(r.Secret), checkToken(r.Token)} {
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func (s *Service) checkFree(r EnrolRequest) error {
	if _, taken := s.find(r.ID); taken {
		return fault.New(fault.Conflict, fmt.Sprintf("Station %s is enrolled already", r.ID))
	}
	return s.checkTokenFree(r.Token)
}

func (s *Service) checkTokenFree(token site.Secret) error {
	if _, taken := s.ByToken(token); taken {
		return fault.New(fault.Conflict, "Another station has this station token")
	}
	return nil
}

// Update renames a station and sets how many locks it has; what was known of
// locks that it no longer has is forgotten. changed is false when it was so
// already. It fails with [fault.NotFound], [fault.Invalid] or
// [fault.Unavailable].
func (s *Service) Update(ctx context.Context, by site.Actor, id site.StationID, name string, locks int) (changed bool, err error) {
	name, err = cleanName(name)
	if err != nil {
		return false, err
	}
	if err := checkLocks(locks); err != nil {
		return false, err
	}
	s.admin.Lock()
	defer s.admin.Unlock()
	st, ok := s.Station(id)
	if !ok {
		return false, errNotFound()
	}
	detail := whatChanged(st.Name != name, st.Locks != locks)
	if detail == "" {
		return false, nil
	}
	st.Name, st.Locks = name, locks
	err = s.replace(ctx, st, record(site.KindStationChanged, by, id, detail))
	return err == nil, err
}

func whatChanged(name, locks bool) string {
	switch {
	case name && locks:
		return detailBoth
	case name:
		return detailName
	case locks:
		return detailLocks
	}
	return ""
}

// Rotate gives a station a new secret and ends its live connection. It fails with
// [fault.NotFound] or [fault.Unavailable]; the old secret then still holds.
func (s *Service) Rotate(ctx context.Context, by site.Actor, id site.StationID) (site.Secret, error) {
	secret := newSecret()
	if _, err := s.setSecret(ctx, by, id, secret, detailGenerated); err != nil {
		return "", err
	}
	s.revoke(id)
	return secret, nil
}

// SetSecret gives a station that secret and ends its live connection; it does
// nothing when the station has it already. It fails with [fault.NotFound],
// [fault.Invalid] or [fault.Unavailable].
func (s *Service) SetSecret(ctx context.Context, by site.Actor, id site.StationID, secret site.Secret) error {
	if err := checkSecret(secret); err != nil {
		return err
	}
	changed, err := s.setSecret(ctx, by, id, secret, detailGiven)
	if changed {
		s.revoke(id)
	}
	return err
}

func (s *Service) setSecret(ctx context.Context, by site.Actor, id site.StationID, secret site.Secret, detail string) (changed bool, err error) {
	s.admin.Lock()
	defer s.admin.Unlock()
	st, ok := s.Station(id)
	if !ok {
		return false, errNotFound()
	}
	if matches(st.Secret, secret) {
		return false, nil
	}
	st.Secret = hashSecret(secret)
	err = s.replace(ctx, st, record(site.KindStationRotated, by, id, detail))
	return err == nil, err
}

// SetToken gives a station that station token; the old one names nothing any
// more. It does nothing when the station has it already. It fails with
// [fault.NotFound], [fault.Invalid], [fault.Conflict] or [fault.Unavailable].
func (s *Service) SetToken(ctx context.Context, by site.Actor, id site.StationID, token site.Secret) error {
	if err := checkToken(token); err != nil {
		return err
	}
	s.admin.Lock()
	defer s.admin.Unlock()
	st, ok := s.Station(id)
	if !ok {
		return errNotFound()
	}
	if st.Token == token {
		return nil
	}
	if err := s.checkTokenFree(token); err != nil {
		return err
	}
	st.Token = token
	return s.replace(ctx, st, record(site.KindStationChanged, by, id, detailToken))
}

// Remove ends the enrolment of a station, its grants and its live connection. It
// fails with [fault.NotFound] or [fault.Unavailable].
func (s *Service) Remove(ctx context.Context, by site.Actor, id site.StationID) error {
	if err := s.remove(ctx, by, id); err != nil {
		return err
	}
	s.revoke(id)
	return nil
}

func (s *Service) remove(ctx context.Context, by site.Actor, id site.StationID) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	st, ok := s.Station(id)
	if !ok {
		return errNotFound()
	}
	err := s.write(ctx, func(ctx context.Context) error {
		return s.store.RemoveStation(ctx, id, record(site.KindStationRemoved, by, id, ""))
	})
	if err != nil {
		return fmt.Errorf("removing station %s: %w", id, err)
	}
	_ = s.transition(id, func(l *live, e *effect, _ time.Time) {
		s.setOnline(l, e, false)
		l.removed = true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
	delete(s.byToken, keyOf(st.Token))
	return nil
}

// replace stores another enrolment of a station, then lets it hold; admin is
// held. A new secret begins a new generation.
func (s *Service) replace(ctx context.Context, st site.Station, r site.Record) error {
	err := s.write(ctx, func(ctx context.Context) error { return s.store.UpdateStation(ctx, st, r) })
	if err != nil {
		return fmt.Errorf("changing station %s: %w", st.ID, err)
	}
	return s.transition(st.ID, func(l *live, e *effect, _ time.Time) {
		old := l.enrolled.Load()
		next := &enrolment{station: st, generation: old.generation}
		if old.station.Secret != st.Secret {
			next.generation = s.generations.Add(1)
		}
		e.event = old.station.Locks != st.Locks
		l.resize(st.Locks)
		l.enrolled.Store(next)
		s.rename(l, old.station.Token, st.Token)
	})
}

// write calls the store for a caller who may leave meanwhile: only the store's
// answer tells whether the change stands, so it is waited for without a deadline.
// A caller who has left before is not served.
func (s *Service) write(ctx context.Context, change func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Timeout, "The request was given up before its turn", err)
	}
	return change(context.WithoutCancel(ctx))
}

func (s *Service) put(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[l.id] = l
	s.byToken[keyOf(l.enrolled.Load().station.Token)] = l
}

// rename moves a station from one token to another.
func (s *Service) rename(l *live, from, to site.Secret) {
	if from == to {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byToken, keyOf(from))
	s.byToken[keyOf(to)] = l
}

// record makes the journal record of an administrator's change.
func record(kind site.Kind, by site.Actor, id site.StationID, detail string) site.Record {
	facts := site.ByActor(by)
	facts.Station, facts.Detail = id, detail
	return site.Record{Kind: kind, Facts: facts}
}

func cleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || utf8.RuneCountInString(name) > maxName {
		return "", fault.New(fault.Invalid, fmt.Sprintf("A station's name has at most %d characters, none of them a control character", maxName))
	}
	return name, nil
}

func checkLocks(n int) error {
	if n < 1 || n > site.MaxLocks {
		return fault.New(fault.Invalid, fmt.Sprintf("A station has 1 to %d locks", site.MaxLocks))
	}
	return nil
}
