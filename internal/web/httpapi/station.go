package httpapi

import (
	"log/slog"
	"net/http"
	"strconv"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// errStation is the one answer to a station or lock that is unknown, removed or not
// granted.
func errStation() error { return fault.New(fault.NotFound, "Station not found") }

// visible gives the station that the path names, if the actor may use it. Whether
// it is unknown or not granted, the same look-ups are done.
func (x *exchange) visible() (site.Station, bool) {
	st, known := x.api.stations.ByToken(site.Secret(x.r.PathValue("station_token")))
	permitted := x.api.access.Permits(x.actor.Account, st.ID)
	return st, known && permitted
}

// readStation gives the Station object.
func (a *API) readStation(x *exchange) {
	st, ok := x.visible()
	if !ok {
		x.fail(errStation())
		return
	}
	state, ok := a.stations.State(st.ID)
	if !ok { // removed in between
		x.fail(errStation())
		return
	}
	x.buf = appendState(x.buf[:0], state)
	x.json(http.StatusOK, x.buf)
}

// unlock opens a lock: success is the station's acknowledgement within the deadline.
func (a *API) unlock(x *exchange) {
	answer, ok := x.open(false)
	if !ok {
		return
	}
	x.buf = append(x.buf[:0], `{"success":`...)
	x.buf = strconv.AppendBool(x.buf, answer.Outcome.Opened())
	x.buf = append(x.buf, '}')
	x.json(http.StatusOK, x.buf)
}

// open sends the command that the path names, or answers with an error. An unknown
// station and an unreadable lock go to the unlocker too, as 0, so that a refusal
// takes the same way whatever its reason.
func (x *exchange) open(waitResult bool) (unlock.Answer, bool) {
	if err := x.skipBody(); err != nil {
		x.fail(err)
		return unlock.Answer{}, false
	}
	key, err := idempotencyKey(x.r.Header)
	if err != nil {
		x.fail(err)
		return unlock.Answer{}, false
	}
	st, _ := x.api.stations.ByToken(site.Secret(x.r.PathValue("station_token")))
	lock, _ := site.ParseLockID(x.r.PathValue("lock_id"))
	x.Opening()
	answer, err := x.api.unlocker.Unlock(x.r.Context(), unlock.Request{
		Actor: x.actor, Station: st.ID, Lock: lock,
		IdempotencyKey: key, WaitResult: waitResult, Accepted: x.start,
		Waiting: x.Waiting,
	})
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			err = errStation()
		}
		x.fail(err)
		return unlock.Answer{}, false
	}
	x.Header().Set("Gatehouse-Command", string(answer.Command))
	x.note(slog.String("command", string(answer.Command)), slog.String("station", answer.Station.String()),
		slog.String("lock", answer.Lock.String()), slog.String("outcome", string(answer.Outcome)), slog.Bool("replayed", answer.Replayed))
	return answer, true
}

// idempotencyKey gives the key of the request, "" where there is none. A key is 1 to
// 255 characters of printable ASCII.
func idempotencyKey(h http.Header) (string, error) {
	values := h["Idempotency-Key"]
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	ok := len(values) == 1 && key != "" && len(key) <= unlock.MaxKey
	for i := range len(key) {
		ok = ok && key[i] >= ' ' && key[i] <= '~'
	}
	if !ok {
		return "", fault.New(fault.Invalid, "The Idempotency-Key must be one of 1 to 255 printable ASCII characters")
	}
	return key, nil
}

// notImplemented answers for the webhooks, which exist in the description only
// (specification, "Events").
func notImplemented(x *exchange) { x.refuse(http.StatusNotImplemented, "Not implemented") }
