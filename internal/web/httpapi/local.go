package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// listedStation is a Station object of /v1 with what an app needs to use the station.
type listedStation struct {
	site.StationState
	Name       string         `json:"name"`
	Token      string         `json:"token"` // in clear text, for those who may use the station
	OpensAgain site.Timestamp `json:"opensAgain,omitzero"`
}

// listStations answers with the stations that the account may see now, or again later.
func (a *API) listStations(x *kit.Exchange) error {
	list := []byte("[")
	for _, st := range a.usable(x.Req.Actor.Account) {
		state, live := a.Stations.State(st.ID)
		if !live {
			continue
		}
		text, err := a.listed.encode(st, state)
		if err != nil {
			return err
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, text...)
	}
	return x.JSON(http.StatusOK, append(list, ']'))
}

// watch streams the stations that the account may see, as they change.
func (a *API) watch(x *kit.Exchange) error {
	account := x.Req.Actor.Account
	return x.Watch(kit.Watch{
		Stations: a.Stations, Clock: a.Clock, Line: a.line,
		Visible: func() []kit.Sight { return a.usable(account) },
		All:     a.Access.MayReadAll(account),
	})
}

// usable lists the stations that the account may see now, or again later, by id.
func (a *API) usable(account site.AccountID) (list []kit.Sight) {
	if a.Access.MayReadAll(account) {
		return kit.Open(a.Stations.Stations())
	}
	add := func(id site.StationID, opens site.Timestamp) {
		if st, known := a.Stations.Station(id); known {
			list = append(list, kit.Sight{Station: st, OpensAgain: opens})
		}
	}
	for _, id := range a.Access.Granted(account) {
		add(id, site.Timestamp{})
	}
	closed := a.Access.Closed(account)
	for _, c := range closed {
		add(c.Station, c.OpensAgain)
	}
	if len(closed) > 0 {
		slices.SortStableFunc(list, func(a, b kit.Sight) int { return cmp.Compare(a.ID, b.ID) })
		list = slices.CompactFunc(list, func(a, b kit.Sight) bool { return a.ID == b.ID }) // one has closed in between
	}
	return list
}

// line returns the line of a station in a watch.
func (a *API) line(st kit.Sight, state site.StationState) any {
	text, err := a.listed.encode(st, state)
	if err != nil { // which it then shows
		return listed(st, state)
	}
	return text
}

// listed shows a station; of one that is closed, what is shown of one that was never
// connected.
func listed(st kit.Sight, state site.StationState) any {
	if !st.OpensAgain.IsZero() {
		state = state.Unseen()
	}
	return listedStation{state, st.Name, st.Token.Reveal(), st.OpensAgain}
}

// unlockAndWait opens a lock and waits for the station's own result, or for as long as
// [kit.Request.WaitsForResult] says.
func (a *API) unlockAndWait(x *kit.Exchange) error {
	waitResult, err := x.Req.WaitsForResult()
	if err != nil {
		return err
	}
	answer, err := a.open(x, waitResult)
	if err != nil {
		return err
	}
	return a.answerCommand(x, answer)
}

// readCommand answers with the state of a command that the account has sent.
func (a *API) readCommand(x *kit.Exchange) error {
	answer, err := a.Unlocker.Command(x.Req.Context(), x.Req.Actor, site.CommandID(x.Req.PathValue("command_id")))
	if err != nil {
		return err
	}
	return a.answerCommand(x, answer)
}

// commandState is a command and its lock.
type commandState struct {
	CommandID site.CommandID `json:"commandId"`
	Outcome   site.Outcome   `json:"outcome"`
	Message   string         `json:"message,omitempty"` // where it says more than the outcome
	Lock      site.Lock      `json:"lock"`
}

func (a *API) answerCommand(x *kit.Exchange, answer unlock.Answer) error {
	return x.Encode(http.StatusOK, commandState{answer.Command, answer.Outcome, answer.Message, a.lockOf(x.Req.Actor.Account, answer)})
}

// lockOf returns the lock as it is now; unknown if the account may no longer see it.
func (a *API) lockOf(account site.AccountID, answer unlock.Answer) site.Lock {
	state, _ := a.Stations.State(answer.Station)
	if a.Access.MayRead(account, answer.Station) {
		for _, lock := range state.Locks {
			if lock.ID == answer.Lock {
				return lock
			}
		}
	}
	return site.Lock{ID: answer.Lock, Status: site.Unknown}
}
