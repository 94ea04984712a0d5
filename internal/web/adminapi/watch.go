package adminapi

import (
	"fmt"
	"net/url"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// watch streams every station as it is now, then each that changes; with
// ?station= only that one. When more changed than is remembered, everything is
// sent again.
func (a *API) watch(x *kit.Exchange) error {
	only, err := a.watched(x.Req.URL.Query())
	if err != nil {
		return err
	}
	return x.Follow(kit.Lines(), nil, func(s *kit.Stream) error { return a.sendChanges(s, only) })
}

func (a *API) sendChanges(s *kit.Stream, only site.StationID) error {
	wake, cancel := a.Stations.Subscribe()
	defer cancel()
	seen := a.Stations.Latest()
	err := a.sendStations(s, only)
	for err == nil && s.Wait(wake) {
		events, gap := a.Stations.EventsSince(seen, only)
		if gap {
			seen = a.Stations.Latest()
			err = a.sendStations(s, only)
			continue
		}
		for _, event := range events {
			seen = event.Number
			if st, ok := a.Stations.Station(event.State.ID); ok { // it may have been removed
				err = s.SendLine(a.show(st, event.State))
			}
			if err != nil {
				break
			}
		}
	}
	return err
}

// watched returns the station to watch, or 0 for all.
func (a *API) watched(query url.Values) (site.StationID, error) {
	for key := range query {
		if key != "station" {
			return 0, fault.New(fault.Invalid, fmt.Sprintf("The query has no %q: it knows station", kit.Clip(key)))
		}
	}
	if !query.Has("station") {
		return 0, nil
	}
	s, err := a.enrolled(query.Get("station"))
	return s.ID, err
}

func (a *API) sendStations(s *kit.Stream, only site.StationID) error {
	for _, st := range a.Stations.Stations() {
		if only != 0 && st.ID != only {
			continue
		}
		if state, ok := a.Stations.State(st.ID); ok {
			if err := s.SendLine(a.show(st, state)); err != nil {
				return err
			}
		}
	}
	return nil
}
