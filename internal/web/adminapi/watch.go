package adminapi

import (
	"fmt"
	"net/url"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// watch streams the stations as they change; with ?station= only that one.
func (a *API) watch(x *kit.Exchange) error {
	only, err := a.watched(x.Req.URL.Query())
	if err != nil {
		return err
	}
	visible := a.Stations.Stations
	if only != 0 {
		visible = func() []site.Station {
			if st, ok := a.Stations.Station(only); ok {
				return []site.Station{st}
			}
			return nil
		}
	}
	return x.Watch(kit.Watch{
		Stations: a.Stations, Clock: a.Clock, Visible: visible, All: true,
		Line: func(st site.Station, state site.StationState) any { return a.show(st, state) },
	})
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
