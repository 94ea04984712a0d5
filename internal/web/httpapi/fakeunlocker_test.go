package httpapi_test

import (
	"context"
	"fmt"
	"sync"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// fakeUnlocker opens whatever the account may use, and keeps the requests.
type fakeUnlocker struct {
	access   *fakeAccess
	stations *fakeStations

	mu       sync.Mutex // mu guards what follows
	outcome  site.Outcome
	fail     error
	requests []unlock.Request
}

func (f *fakeUnlocker) Unlock(_ context.Context, req unlock.Request) (unlock.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, req)
	st, ok := f.stations.Station(req.Station)
	switch {
	case f.fail != nil:
		return unlock.Answer{}, f.fail
	case !ok || !st.HasLock(req.Lock) || !f.access.Permits(req.Actor.Account, req.Station):
		return unlock.Answer{}, fault.Wrap(fault.NotFound, "Nothing here", fmt.Errorf("station %d", req.Station))
	}
	return unlock.Answer{Command: command, Station: req.Station, Lock: req.Lock, Outcome: f.outcome}, nil
}

func (f *fakeUnlocker) Command(_ context.Context, actor site.Actor, id site.CommandID) (unlock.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fail != nil:
		return unlock.Answer{}, f.fail
	case actor.Account != account || id != command:
		return unlock.Answer{}, fault.New(fault.NotFound, "Command not found")
	}
	return unlock.Answer{Command: id, Station: stationID, Lock: 1, Outcome: f.outcome}, nil
}

func (f *fakeUnlocker) end(outcome site.Outcome, fail error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outcome, f.fail = outcome, fail
}

func (f *fakeUnlocker) last() unlock.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) == 0 {
		return unlock.Request{}
	}
	return f.requests[len(f.requests)-1]
}

func (f *fakeUnlocker) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}
