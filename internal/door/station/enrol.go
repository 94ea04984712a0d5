package station

import (
	"context"
	"fmt"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// storeDeadline bounds one change of a station in the store.
const storeDeadline = 10 * time.Second

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
	Name   string      // for people; see [site.CleanStationName]
	Locks  int         // see [site.ValidLocks]
	Secret site.Secret // see [site.ValidStationSecret]
	Token  site.Secret // see [site.ValidStationToken]
}

// Enrolled is a new station with the words that are shown this once.
type Enrolled struct {
	Station site.Station
	Token   site.Secret
	Secret  site.Secret
}

// Enrol adds a station. It fails with [fault.Invalid] when the request cannot be
// right, [fault.Conflict] when the id or the token is taken, [fault.Unavailable] when
// it cannot be stored, and, as every change of a station may, with [fault.Timeout] when
// ctx ends before its turn or the store takes too long; nothing has changed then.
// Changes of different stations meet in the store; those of one station are made in
// turn.
func (s *Service) Enrol(ctx context.Context, by site.Actor, r EnrolRequest) (Enrolled, error) {
	r, err := r.complete()
	if err != nil {
		return Enrolled{}, err
	}
	give, err := s.take(ctx, r.ID)
	if err != nil {
		return Enrolled{}, err
	}
	defer give()
	if err := s.checkFree(ctx, r); err != nil {
		return Enrolled{}, err
	}
	st := s.fresh(r)
	err = write(ctx, "enrolling", st.ID, func(ctx context.Context) error {
		return s.store.AddStation(ctx, st, record(site.KindStationAdded, by, st.ID, ""))
	})
	if err != nil {
		return Enrolled{}, err
	}
	s.admit(st)
	return Enrolled{Station: st, Token: r.Token, Secret: r.Secret}, nil
}

// fresh returns the station that a complete request describes.
func (s *Service) fresh(r EnrolRequest) site.Station {
	return site.Station{
		ID: r.ID, Name: r.Name, Locks: r.Locks, Token: r.Token,
		Secret: hashSecret(r.Secret), Enrolled: site.At(s.clock.Now()).Time,
	}
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

// take waits for the turn to change a station; [fault.Timeout] when ctx ends first, or
// the turn has not come within storeDeadline.
func (s *Service) take(ctx context.Context, id site.StationID) (give func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, storeDeadline)
	defer cancel()
	give, err = s.changes.Take(ctx, id)
	return give, fault.Wrap(fault.Timeout, "The request was given up before its turn", err)
}

// write makes one change of a station in the store. It outlives its caller, because
// only the store's answer tells whether the change stands, but not its own deadline.
func write(ctx context.Context, doing string, id site.StationID, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeDeadline)
	defer cancel()
	if err := change(ctx); err != nil {
		return fmt.Errorf("%s station %s: %w", doing, id, err)
	}
	return nil
}

// checkFree refuses an id or a token that is in use.
func (s *Service) checkFree(ctx context.Context, r EnrolRequest) error {
	if err := s.awaitFlush(ctx); err != nil {
		return err
	}
	if _, taken := s.find(r.ID); taken {
		return fault.New(fault.Conflict, fmt.Sprintf("Station %s is enrolled already", r.ID))
	}
	// Where two stations are being given the same token, the store refuses the second.
	if _, taken := s.ByToken(r.Token); taken {
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
	give, err := s.take(ctx, id)
	if err != nil {
		return false, err
	}
	defer give()
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
	if err := s.rotate(ctx, by, id, secret); err != nil {
		return "", err
	}
	s.revoke(id)
	return secret, nil
}

func (s *Service) rotate(ctx context.Context, by site.Actor, id site.StationID, secret site.Secret) error {
	give, err := s.take(ctx, id)
	if err != nil {
		return err
	}
	defer give()
	st, ok := s.Station(id)
	if !ok {
		return errNotFound()
	}
	st.Secret = hashSecret(secret)
	return s.replace(ctx, st, record(site.KindStationRotated, by, id, detailGenerated))
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
	give, err := s.take(ctx, id)
	if err != nil {
		return err
	}
	defer give()
	if _, ok := s.Station(id); !ok {
		return errNotFound()
	}
	err = write(ctx, "removing", id, func(ctx context.Context) error {
		return s.store.RemoveStation(ctx, id, record(site.KindStationRemoved, by, id, ""))
	})
	if err != nil {
		return err
	}
	s.forget(id)
	return nil
}

// forget ends the enrolment of a station that the store has removed.
func (s *Service) forget(id site.StationID) {
	st, _ := s.Station(id)
	_ = s.transition(id, func(l *live, e *effect, _ time.Time) {
		s.setConnection(l, e, 0)
		l.removed = true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
	delete(s.byToken, keyOf(st.Token))
}

// replace stores another enrolment of a station and adopts it; the caller has the
// station's turn. A new secret begins a new generation.
func (s *Service) replace(ctx context.Context, st site.Station, r site.Record) error {
	err := write(ctx, "changing", st.ID, func(ctx context.Context) error { return s.store.UpdateStation(ctx, st, r) })
	if err != nil {
		return err
	}
	return s.adopt(st)
}

// adopt applies an enrolment of a station that was stored.
func (s *Service) adopt(st site.Station) error {
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

// cleanName says what is wrong with a given name, or gives it as it is kept.
func cleanName(name string) (string, error) {
	name, ok := site.CleanStationName(name)
	if !ok {
		return "", fault.New(fault.Invalid, fmt.Sprintf("A station's name has at most %d characters, none of them a control character", site.MaxStationName))
	}
	return name, nil
}

func checkLocks(n int) error {
	if !site.ValidLocks(int64(n)) {
		return fault.New(fault.Invalid, fmt.Sprintf("A station has 1 to %d locks", site.MaxLocks))
	}
	return nil
}
