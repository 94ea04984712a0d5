package adminapi

import (
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// watch streams the stations as they change.
func (a *API) watch(x *kit.Exchange) error {
	return x.Watch(kit.Watch{
		Stations: a.Stations, Clock: a.Clock, Visible: a.Stations.Stations, All: true,
		Line: func(st site.Station, state site.StationState) any { return a.show(st, state) },
	})
}
