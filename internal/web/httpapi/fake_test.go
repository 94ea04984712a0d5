package httpapi_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Secrets of the world of the tests. Each carries the canary, so that a search of
// logs and bodies finds any of them.
const (
	canary        = "canary"
	password      = "canary-password"
	accessToken   = "canaryHead.canaryBody.canarySum"
	newAccess     = "canaryHead.canaryFresh.canarySum"
	endingAccess  = "canaryHead.canaryEnding.canarySum"
	otherAccess   = "canaryHead.canaryOther.canarySum"
	refreshToken  = "0a5cafe0-0000-4000-8000-000000000001"
	sessionCookie = "Y29va2ll"
	deviceSecret  = "ZGV2aWNl"
	gatewayID     = site.GatewayID("7f8d3a52-5a0e-4a53-9a1c-0a4a1f6a2f10")
	stationToken  = "canary-station-token"
	hiddenToken   = "canary-hidden-station"
	unknownToken  = "canary-unknown-station"
	email         = "porter@example.test"
	account       = site.AccountID("11111111-1111-4111-8111-111111111111")
	other         = site.AccountID("22222222-2222-4222-8222-222222222222")
	session       = site.SessionID("33333333-3333-4333-8333-333333333333")
	boot          = site.BootID("44444444-4444-4444-8444-444444444444")
	command       = site.CommandID("0190c8a0-53c8-7a3e-8f0e-2f6d5a1b9c44")
	stationID     = site.StationID(1042)
	hiddenStation = site.StationID(7)
)

func errToken() error { return fault.New(fault.Unauthenticated, "Token is invalid") }

// fakeAccess knows one account with one session, and another account.
type fakeAccess struct {
	mu       sync.Mutex // mu guards what follows
	tokens   map[site.Secret]site.Actor
	grants   map[site.AccountID][]site.StationID
	closed   map[site.AccountID][]site.Closed
	readsAll site.AccountID
	reads    map[site.AccountID][]site.StationID // what it may see besides
	fail     error                               // what every method but Authenticate answers, if set
	auth     error                               // what Authenticate answers, if set
	panics   any                                 // what Login panics with, if set
	from     access.Client                       // the client of the last login
	ended    []string
	leaving  bool // whether the context of the last end had ended already
}

func newFakeAccess() *fakeAccess {
	return &fakeAccess{
		tokens: map[site.Secret]site.Actor{
			accessToken: {Origin: site.Local, Account: account, Session: session, Email: email},
			otherAccess: {Origin: site.Local, Account: other, Session: "other", Email: "other@example.test"},
		},
		closed: map[site.AccountID][]site.Closed{},
		grants: map[site.AccountID][]site.StationID{account: {stationID}, other: {hiddenStation}},
	}
}

func (f *fakeAccess) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeAccess) Login(_ context.Context, mail string, pass site.Secret, from access.Client) (access.Tokens, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from = from
	switch {
	case f.panics != nil:
		panic(f.panics)
	case f.fail != nil:
		return access.Tokens{}, f.fail
	case mail != email || pass != password:
		return access.Tokens{}, fault.New(fault.Unauthenticated, "Invalid credentials")
	}
	return access.Tokens{Access: accessToken, Refresh: refreshToken, Cookie: sessionCookie, Device: deviceSecret}, nil
}

func (f *fakeAccess) Recognise(_ string, from access.Client) access.Recognised {
	if from.Device == deviceSecret {
		return access.Recognised{Account: account, Device: deviceSecret}
	}
	return access.Recognised{}
}

func (f *fakeAccess) Refresh(_ context.Context, refresh site.Secret) (site.Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fail != nil:
		return "", f.fail
	case refresh != refreshToken:
		return "", errToken()
	}
	return newAccess, nil
}

func (f *fakeAccess) Authenticate(token site.Secret) (site.Actor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.auth != nil {
		return site.Actor{}, f.auth
	}
	actor, ok := f.tokens[token]
	if !ok {
		return site.Actor{}, errToken()
	}
	return actor, nil
}

func (f *fakeAccess) AuthenticateToRevoke(token site.Secret) (site.Actor, error) {
	if token == endingAccess {
		return site.Actor{Origin: site.Local, Account: account, Session: "ending", Email: email}, nil
	}
	return f.Authenticate(token)
}

func (f *fakeAccess) end(ctx context.Context, what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = ctx.Err() != nil
	if f.fail != nil {
		return f.fail
	}
	f.ended = append(f.ended, what)
	return nil
}

func (f *fakeAccess) AuthenticateCookie(cookie site.Secret) (site.Actor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cookie != sessionCookie || slices.Contains(f.ended, "session "+string(session)) {
		return site.Actor{}, errToken()
	}
	return site.Actor{Origin: site.Local, Account: account, Session: session, Email: email}, nil
}

func (f *fakeAccess) RefreshToRevoke(refresh site.Secret) (site.Actor, error) {
	if refresh != refreshToken {
		return site.Actor{}, errToken()
	}
	return site.Actor{Origin: site.Local, Account: "by refresh", Session: "by refresh", Email: email}, nil
}

func (f *fakeAccess) CookieToRevoke(cookie site.Secret) (site.Actor, error) {
	if cookie != sessionCookie {
		return site.Actor{}, errToken()
	}
	return site.Actor{Origin: site.Local, Account: "by cookie", Session: "by cookie", Email: email}, nil
}

func (f *fakeAccess) Revoke(ctx context.Context, actor site.Actor, all bool) error {
	if all {
		return f.end(ctx, "account "+string(actor.Account))
	}
	return f.end(ctx, "session "+string(actor.Session))
}

func (f *fakeAccess) Permits(who site.AccountID, st site.StationID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.grants[who], st)
}

func (f *fakeAccess) Granted(who site.AccountID) []site.StationID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(append(slices.Clone(f.grants[who]), f.reads[who]...)))
}

func (f *fakeAccess) Closed(who site.AccountID) []site.Closed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed[who]
}

func (f *fakeAccess) MayReadAll(who site.AccountID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readsAll == who && who != ""
}

func (f *fakeAccess) MayRead(who site.AccountID, st site.StationID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.grants[who], st) || slices.Contains(f.reads[who], st) || f.readsAll == who && who != ""
}

// fakeStations has a granted and a hidden station and a log of events.
type fakeStations struct {
	mu       sync.Mutex // mu guards what follows
	stations map[site.StationID]site.Station
	states   map[site.StationID]site.StationState
	events   []station.Event
	lost     int // how many of the oldest events are not kept any more
	wakes    map[chan struct{}]struct{}
}

func newFakeStations() *fakeStations {
	volts := 3.71
	heard := site.At(time.Date(2026, 11, 21, 7, 0, 0, 5_600_000, time.UTC))
	return &fakeStations{
		stations: map[site.StationID]site.Station{
			stationID:     {ID: stationID, Name: `North "entrance"`, Locks: 2, Token: stationToken},
			hiddenStation: {ID: hiddenStation, Name: "Vault", Locks: 1, Token: hiddenToken},
		},
		states: map[site.StationID]site.StationState{
			stationID: {
				ID: stationID, BatteryVoltage: &volts, LastConnection: heard, Status: site.Online,
				Locks: []site.Lock{{ID: 1, Status: site.Locked, LastUpdated: heard}, {ID: 2, Status: site.Unknown}},
			},
			hiddenStation: {ID: hiddenStation, Status: site.Offline, Locks: []site.Lock{{ID: 1, Status: site.Unknown}}},
		},
		wakes: make(map[chan struct{}]struct{}),
	}
}

const stationJSON = `{"stationId":1042,"batteryVoltage":3.71,"lastConnection":"2026-11-21T07:00:00.005Z","status":"online",` +
	`"locks":[{"lockId":"lock-1","status":"locked","lastUpdated":"2026-11-21T07:00:00.005Z"},{"lockId":"lock-2","status":"unknown","lastUpdated":null}]}`

func (f *fakeStations) ByToken(token site.Secret) (site.Station, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range f.stations {
		if st.Token == token {
			return st, true
		}
	}
	return site.Station{}, false
}

func (f *fakeStations) Station(id site.StationID) (site.Station, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st, ok := f.stations[id]
	return st, ok
}

func (f *fakeStations) Stations() []site.Station {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.stations), func(a, b site.Station) int { return int(a.ID - b.ID) })
}

func (f *fakeStations) State(id site.StationID) (site.StationState, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, ok := f.states[id]
	return state, ok
}

func (f *fakeStations) EventsSince(after uint64, filter site.StationID) (events []station.Event, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after > uint64(len(f.events)) || after < uint64(f.lost) { //nolint:gosec // small
		return nil, true
	}
	for _, e := range f.events[after:] {
		if filter == 0 || e.State.ID == filter {
			events = append(events, e)
		}
	}
	return events, false
}

func (f *fakeStations) Adopted(earlier site.BootID) (uint64, bool) {
	return 2, earlier == "77777777-7777-4777-8777-777777777777"
}

func (f *fakeStations) SubscribeTo(site.StationID) (<-chan struct{}, func()) { return f.Subscribe() }

func (f *fakeStations) Latest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return uint64(len(f.events))
}

func (f *fakeStations) Subscribe() (<-chan struct{}, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wake := make(chan struct{}, 1)
	f.wakes[wake] = struct{}{}
	return wake, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.wakes, wake)
	}
}

// happen makes an event: the station has that voltage now.
func (f *fakeStations) happen(id site.StationID, volts float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(id, volts)
}

// outrun is happen for an event before which none is kept any more.
func (f *fakeStations) outrun(id site.StationID, volts float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = len(f.events) + 1
	f.add(id, volts)
}

// add is happen under mu.
func (f *fakeStations) add(id site.StationID, volts float64) {
	state := f.states[id]
	state.BatteryVoltage = &volts
	f.states[id] = state
	f.events = append(f.events, station.Event{Number: uint64(len(f.events) + 1), State: state, JSON: func() ([]byte, error) { return json.Marshal(state) }})
	for wake := range f.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (f *fakeStations) forget(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = n
}

func (f *fakeStations) remove(id site.StationID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.stations, id)
	delete(f.states, id)
}

func (f *fakeStations) forgetState(id site.StationID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.states, id)
}

func (f *fakeStations) rename(id site.StationID, token site.Secret) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stations[id] = site.Station{ID: id, Token: token}
}

func (f *fakeStations) followers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.wakes)
}
