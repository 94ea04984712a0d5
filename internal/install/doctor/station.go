package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

const (
	// silentLimit is how long a station may be offline before it is reported.
	silentLimit = 24 * time.Hour

	// mostStations is how many of them one finding names.
	mostStations = 10
)

// checkStations finds stations that a person has to visit.
func checkStations(ctx context.Context, g *subject, s *sheet) {
	switch {
	case g.runs():
	case mayNot(g.silent):
		s.skip("this user may not ask the gateway for them", asRoot)
		return
	default:
		s.skip("only a running gateway knows them", "")
		return
	}
	all, err := g.gateway.Stations(ctx)
	if err != nil {
		s.unread("the stations", err)
		return
	}
	now := g.status.Clock.Now.Time
	var never, silent, low []adminapi.Station
	online := 0
	for _, st := range all {
		switch {
		case st.Status == site.Online:
			online++
		case st.LastConnection.IsZero():
			never = append(never, st)
		case now.Sub(st.LastConnection.Time) > silentLimit:
			silent = append(silent, st)
		}
		if v := st.BatteryVoltage; v != nil && *v < g.settings.Station.BatteryLow {
			low = append(low, st)
		}
	}
	slices.SortStableFunc(never, func(a, b adminapi.Station) int { return a.Enrolled.Compare(b.Enrolled.Time) })
	slices.SortStableFunc(silent, func(a, b adminapi.Station) int { return a.LastConnection.Compare(b.LastConnection.Time) })
	slices.SortStableFunc(low, func(a, b adminapi.Station) int { return cmp.Compare(*a.BatteryVoltage, *b.BatteryVoltage) })
	if len(silent) > 0 {
		s.warn(plural(len(silent), "station")+" silent for more than a day", "check their power and their network; gatehouse station watch shows when one is back",
			worst(silent, func(st adminapi.Station) string { return "silent since " + moment(st.LastConnection.Time) })...)
	}
	if len(low) > 0 {
		s.warn(plural(len(low), "station")+" with a low battery", "change the batteries",
			worst(low, func(st adminapi.Station) string { return fmt.Sprintf("%.2f V", *st.BatteryVoltage) })...)
	}
	if len(never) > 0 {
		s.notice(plural(len(never), "station")+" enrolled and never connected", "configure its MQTT login; gatehouse station rotate N issues a new one",
			worst(never, func(st adminapi.Station) string { return "enrolled at " + moment(st.Enrolled.Time) })...)
	}
	s.fine(fmt.Sprintf("%d of %d online", online, len(all)))
}

// worst describes the first stations and counts the rest.
func worst(stations []adminapi.Station, describe func(adminapi.Station) string) []string {
	var facts []string
	for _, st := range stations[:min(len(stations), mostStations)] {
		name := st.ID.String()
		if st.Name != "" {
			name += " " + st.Name
		}
		facts = append(facts, "station "+name+": "+describe(st))
	}
	if more := len(stations) - mostStations; more > 0 {
		facts = append(facts, fmt.Sprintf("and %d more", more))
	}
	return facts
}
