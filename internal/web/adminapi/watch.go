package adminapi

import (
	"fmt"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// watch streams every station as it is now, then each that changes; with
// ?station= only that one. When more changed than is remembered, everything is
// sent anew.
func (a *API) watch(r *request, s *stream) error {
	only, err := a.watched(r)
	if err != nil {
		return err
	}
	wake, cancel := a.Stations.Subscribe()
	defer cancel()
	seen := a.Stations.Latest()
	if err := a.sendStations(s, only); err != nil {
		return err
	}
	for s.wait(r.Context(), wake) {
		events, gap := a.Stations.EventsSince(seen, only)
		if gap {
			seen = a.Stations.Latest()
			if err := a.sendStations(s, only); err != nil {
				return err
			}
			continue
		}
		for _, event := range events {
			seen = event.Number
			if err := a.sendStation(s, event.State); err != nil {
				return err
			}
		}
	}
	return nil
}

// watched gives the station to watch, or 0 for all.
func (a *API) watched(r *request) (site.StationID, error) {
	query := r.URL.Query()
	for key := range query {
		if key != "station" {
			return 0, fault.New(fault.Invalid, fmt.Sprintf("The query has no %q: it knows station", clip(key)))
		}
	}
	if !query.Has("station") {
		return 0, nil
	}
	id, err := site.ParseStationID(query.Get("station"))
	if err != nil {
		return 0, fault.New(fault.Invalid, err.Error())
	}
	if _, ok := a.Stations.Station(id); !ok {
		return 0, errNoStation()
	}
	return id, nil
}

func (a *API) sendStations(s *stream, only site.StationID) error {
	for _, st := range a.Stations.Stations() {
		if only != 0 && st.ID != only {
			continue
		}
		if state, ok := a.Stations.State(st.ID); ok {
			if err := s.send(a.stationOf(st, state)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendStation sends the state of an event, unless its station is gone.
func (a *API) sendStation(s *stream, state site.StationState) error {
	st, ok := a.Stations.Station(state.ID)
	if !ok {
		return nil
	}
	return s.send(a.stationOf(st, state))
}
