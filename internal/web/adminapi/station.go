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

// errNoStation is the answer about a station that is not enrolled.
func errNoStation() error { return fault.New(fault.NotFound, "Station not found") }

func (a *API) stations(*request) (any, error) {
	list := StationList{Stations: []Station{}}
	for _, s := range a.Stations.Stations() {
		if state, ok := a.Stations.State(s.ID); ok { // it may have been removed meanwhile
			list.Stations = append(list.Stations, a.show(s, state))
		}
	}
	return list, nil
}

func (a *API) show(s site.Station, state site.StationState) Station {
	return Station{StationState: state, Name: s.Name, Firmware: a.Stations.Firmware(s.ID), Enrolled: site.At(s.Enrolled)}
}

// find returns one station as the API shows it.
func (a *API) find(id site.StationID) (Station, error) {
	s, ok := a.Stations.Station(id)
	state, there := a.Stations.State(id)
	if !ok || !there {
		return Station{}, errNoStation()
	}
	return a.show(s, state), nil
}

func (a *API) station(r *request) (any, error) {
	id, err := r.station()
	if err != nil {
		return nil, err
	}
	return a.find(id)
}

func (a *API) addStation(r *request, in NewStation) (any, error) {
	enrolled, err := a.Stations.Enrol(r.Context(), r.Actor, station.EnrolRequest{
		ID: in.StationID, Name: in.Name, Locks: in.Locks, Secret: site.Secret(in.Secret), Token: site.Secret(in.Token),
	})
	if err != nil {
		return nil, err
	}
	return sitefile.Issue(enrolled.Station.ID, enrolled.Token, enrolled.Secret), nil
}

func (a *API) changeStation(r *request, in StationPatch) (any, error) {
	id, err := r.station()
	if err != nil {
		return nil, err
	}
	s, ok := a.Stations.Station(id)
	if !ok {
		return nil, errNoStation()
	}
	if in.Name == nil && in.Locks == nil {
		return nil, fault.New(fault.Invalid, `Say what to change: "name", "locks"`)
	}
	name, locks := s.Name, s.Locks
	if in.Name != nil {
		name = *in.Name
	}
	if in.Locks != nil {
		locks = *in.Locks
	}
	if _, err := a.Stations.Update(r.Context(), r.Actor, id, name, locks); err != nil {
		return nil, err
	}
	return a.find(id)
}

func (a *API) rotate(r *request) (any, error) {
	id, err := r.station()
	if err != nil {
		return nil, err
	}
	secret, err := a.Stations.Rotate(r.Context(), r.Actor, id)
	if err != nil {
		return nil, err
	}
	return sitefile.Issue(id, "", secret), nil
}

func (a *API) removeStation(r *request) (any, error) {
	id, err := r.station()
	if err != nil {
		return nil, err
	}
	return nil, a.Stations.Remove(r.Context(), r.Actor, id)
}

// unlock opens a lock. It ends in time by itself, so that it needs no goroutine.
func (a *API) unlock(x *kit.Exchange) error {
	id, err := stationOf(x.Req.PathValue("station"))
	if err != nil {
		return err
	}
	lock, err := site.ParseLockID(x.Req.PathValue("lock"))
	if err != nil {
		return fault.New(fault.Invalid, err.Error())
	}
	key, err := x.Req.IdempotencyKey()
	if err != nil {
		return err
	}
	x.Opening()
	answer, err := a.Unlocker.Unlock(x.Req.Context(), unlock.Request{
		Actor: x.Req.Actor, Station: id, Lock: lock, IdempotencyKey: key, WaitResult: true,
		Accepted: x.Req.Start, Waiting: x.Waiting,
	})
	if err != nil {
		return err
	}
	return x.Encode(http.StatusOK, Unlocked{CommandID: answer.Command, Outcome: answer.Outcome, Success: answer.Outcome.Opened()})
}
