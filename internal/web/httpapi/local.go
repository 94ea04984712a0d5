package httpapi

import (
	"net/http"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// listStations gives the stations that the account may use, with what an app needs
// to use them.
func (a *API) listStations(x *exchange) {
	x.buf = append(x.buf[:0], '[')
	for _, id := range a.access.Granted(x.actor.Account) {
		st, known := a.stations.Station(id)
		state, live := a.stations.State(id)
		if !known || !live {
			continue
		}
		if len(x.buf) > 1 {
			x.buf = append(x.buf, ',')
		}
		x.buf = appendStateFields(append(x.buf, '{'), state)
		x.buf = append(x.buf, `,"name":`...)
		x.buf = appendText(x.buf, st.Name)
		x.buf = append(x.buf, `,"token":`...)
		x.buf = appendText(x.buf, st.Token.Reveal())
		x.buf = append(x.buf, '}')
	}
	x.buf = append(x.buf, ']')
	x.json(http.StatusOK, x.buf)
}

// unlockAndWait opens a lock and waits for the station's own result.
func (a *API) unlockAndWait(x *exchange) {
	if answer, ok := x.open(true); ok {
		x.tell(answer)
	}
}

// readCommand tells how a command stands that the account has sent.
func (a *API) readCommand(x *exchange) {
	answer, err := a.unlocker.Command(x.r.Context(), x.actor, parseCommandID(x.r.PathValue("command_id")))
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			err = fault.New(fault.NotFound, "Command not found")
		}
		x.fail(err)
		return
	}
	x.tell(answer)
}

// parseCommandID gives the id, or "", which names no command.
func parseCommandID(text string) site.CommandID {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(form) {
		return ""
	}
	for i := range len(form) {
		c := text[i]
		hex := (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')
		if (form[i] == 'x' && !hex) || (form[i] == '-' && c != '-') {
			return ""
		}
	}
	return site.CommandID(text)
}

// tell answers with a command and its lock.
func (x *exchange) tell(answer unlock.Answer) {
	x.buf = append(x.buf[:0], `{"commandId":`...)
	x.buf = appendText(x.buf, string(answer.Command))
	x.buf = append(x.buf, `,"outcome":`...)
	x.buf = appendText(x.buf, string(answer.Outcome))
	x.buf = append(x.buf, `,"lock":`...)
	x.buf = appendLock(x.buf, x.lockOf(answer))
	x.buf = append(x.buf, '}')
	x.json(http.StatusOK, x.buf)
}

// lockOf gives the lock as it stands now; unknown where the account may not see it
// any more.
func (x *exchange) lockOf(answer unlock.Answer) site.Lock {
	state, _ := x.api.stations.State(answer.Station)
	if x.api.access.Permits(x.actor.Account, answer.Station) {
		for _, lock := range state.Locks {
			if lock.ID == answer.Lock {
				return lock
			}
		}
	}
	return site.Lock{ID: answer.Lock, Status: site.Unknown}
}
