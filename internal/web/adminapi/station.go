package adminapi

import (
	"net/http"

	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

func (a *API) stations(*request) (any, error) {
	stations := []Station{}
	for _, s := range a.Stations.Stations() {
		if state, ok := a.Stations.State(s.ID); ok { // it may have been removed meanwhile
			stations = append(stations, a.show(s, state))
		}
	}
	return map[string][]Station{"stations": stations}, nil
}

func (a *API) show(s site.Station, state site.StationState) Station {
	return Station{StationState: state, Name: s.Name, Firmware: a.Stations.Firmware(s.ID), Enrolled: site.At(s.Enrolled), HomeAssistant: s.HomeAssistant}
}

// showStation answers with the station of the path as it is now, and whether it takes
// commands.
func (a *API) showStation(r *request) (any, error) {
	shown, err := a.shown(r)
	if err == nil {
		subscribed := a.Subscribed(r.station.ID)
		shown.Subscribed = &subscribed
	}
	return shown, err
}

// shown returns the station of the path as it is now.
func (a *API) shown(r *request) (Station, error) {
	s, ok := a.Stations.Station(r.station.ID)
	state, there := a.Stations.State(r.station.ID)
	if !ok || !there {
		return Station{}, errNotEnrolled(r.station.ID)
	}
	return a.show(s, state), nil
}

// battery answers with the history of the station's battery.
func (a *API) battery(r *request) (any, error) {
	points, daysLeft, err := a.Stations.Battery(r.Context(), r.station.ID)
	answer := Battery{Points: make([]BatteryPoint, len(points)), DaysLeft: daysLeft}
	for i, p := range points {
		answer.Points[i] = BatteryPoint{Day: p.Date(), Volts: p.Volts}
	}
	return answer, err
}

func (a *API) addStation(r *request, in NewStation) (any, error) {
	enrolled, err := a.Stations.Enrol(r.Context(), r.Actor, station.EnrolRequest{
		ID: in.StationID, Name: in.Name, Locks: in.Locks, Secret: site.Secret(in.Secret), Token: site.Secret(in.Token),
	})
	return sitefile.Issue(enrolled.Station.ID, enrolled.Token, enrolled.Secret), err
}

func (a *API) changeStation(r *request, in StationPatch) (any, error) {
	if in.Name == nil && in.Locks == nil && in.HomeAssistant == nil {
		return nil, fault.New(fault.Invalid, `Say what to change: "name", "locks", "homeassistant"`)
	}
	if _, err := a.Stations.Update(r.Context(), r.Actor, r.station.ID, station.Patch(in)); err != nil {
		return nil, err
	}
	return a.shown(r)
}

func (a *API) rotate(r *request) (any, error) {
	secret, err := a.Stations.Rotate(r.Context(), r.Actor, r.station.ID)
	return sitefile.Issue(r.station.ID, "", secret), err
}

func (a *API) removeStation(r *request) (any, error) {
	return nil, a.Stations.Remove(r.Context(), r.Actor, r.station.ID)
}

// unlock opens a lock. It ends in time by itself, so that it needs no goroutine. A station or
// lock that there is not goes to the unlocker too, which has it on record.
func (a *API) unlock(x *kit.Exchange) error {
	r, unknown := a.find(x)
	if unknown != nil && !fault.Is(unknown, fault.NotFound) {
		return unknown
	}
	if unknown != nil {
		r.lock = 0
	}
	key, err := x.Req.IdempotencyKey()
	if err != nil {
		return err
	}
	waitResult, err := x.Req.WaitsForResult()
	if err != nil {
		return err
	}
	answer, err := a.Unlock(x.Req.Context(), unlock.Request{
		Actor: x.Req.Actor, Station: r.station.ID, Lock: r.lock, IdempotencyKey: key, WaitResult: waitResult,
		Accepted: x.Req.Start, Client: x,
	})
	if unknown != nil {
		return unknown
	}
	if err != nil {
		return err
	}
	return x.Encode(http.StatusOK, Unlocked{CommandID: answer.Command, Outcome: answer.Outcome, Message: answer.Message, Success: answer.Outcome.Opened()})
}
