package adminapi

import (
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// watch streams the stations as they change.
func (a *API) watch(x *kit.Exchange) error {
	return x.Watch(kit.Watch{
		Stations: a.Stations, Clock: a.Clock, Visible: func() []kit.Sight { return kit.Open(a.Stations.Stations()) }, All: true,
		Line: func(st kit.Sight, state site.StationState) any { return a.show(st.Station, state) },
	})
}
