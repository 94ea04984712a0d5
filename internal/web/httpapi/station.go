package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// errStation is the one answer about a station or lock that is unknown, removed or not
// granted.
func errStation() error { return fault.New(fault.NotFound, "Station not found") }

// visible returns the station that the path names, if the actor may see it. Whether
// it is unknown or not granted, the same look-ups are done.
func (a *API) visible(x *kit.Exchange) (site.Station, bool) {
	st, known := a.Stations.ByToken(site.Secret(x.Req.PathValue("station_token")))
	permitted := a.Access.MayRead(x.Req.Actor.Account, st.ID)
	return st, known && permitted
}

// readStation answers with the Station object.
func (a *API) readStation(x *kit.Exchange) error {
	st, ok := a.visible(x)
	if !ok {
		return errStation()
	}
	state, ok := a.Stations.State(st.ID)
	if !ok { // removed in between
		return errStation()
	}
	return x.Encode(http.StatusOK, state.WithoutDoors())
}

// unlock opens a lock: success is the station's acknowledgement within the deadline.
func (a *API) unlock(x *kit.Exchange) error {
	answer, err := a.open(x, false)
	if err != nil {
		return err
	}
	return x.JSON(http.StatusOK, fmt.Appendf(nil, `{"success":%t}`+"\n", answer.Outcome.Opened()))
}

// open sends the command that the path names. An unknown station and an unreadable lock
// go to the unlocker too, as 0, so that a refusal does the same work whatever its reason.
func (a *API) open(x *kit.Exchange, waitResult bool) (unlock.Answer, error) {
	key, err := x.Req.IdempotencyKey()
	if err != nil {
		return unlock.Answer{}, err
	}
	st, _ := a.Stations.ByToken(site.Secret(x.Req.PathValue("station_token")))
	lock, _ := site.ParseLockID(x.Req.PathValue("lock_id"))
	answer, err := a.Unlocker.Unlock(x.Req.Context(), unlock.Request{
		Actor: x.Req.Actor, Station: st.ID, Lock: lock,
		IdempotencyKey: key, WaitResult: waitResult, Accepted: x.Req.Start,
		Client: x,
	})
	if fault.Is(err, fault.NotFound) {
		err = a.errUnlock(x.Req.Actor, st.ID)
	}
	if err != nil {
		return unlock.Answer{}, err
	}
	x.Header().Set("Gatehouse-Command", string(answer.Command))
	x.Note(slog.String("command", string(answer.Command)), slog.String("station", answer.Station.String()),
		slog.String("lock", answer.Lock.String()), slog.String("outcome", string(answer.Outcome)), slog.Bool("replayed", answer.Replayed))
	return answer, nil
}

// errUnlock is the answer to an unlock that found no station or lock: Forbidden for an
// integration token that may see the station, and so learns nothing by it.
func (a *API) errUnlock(by site.Actor, id site.StationID) error {
	reads, unlocks := a.Access.MayRead(by.Account, id), a.Access.Permits(by.Account, id)
	if reads && !unlocks {
		return fault.New(fault.Forbidden, "This token may read the station, but not unlock it")
	}
	return errStation()
}

// notImplemented answers for the webhooks, which exist in the description only
// (specification, "Events").
func notImplemented(*kit.Exchange) error {
	return kit.Refuse(http.StatusNotImplemented, "Not implemented")
}
