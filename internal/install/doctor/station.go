package doctor

import (
	"context"
	"fmt"
	"time"

	"gatehouse/internal/site"
)

const (
	// silentLimit is how long a station may be offline before it is reported.
	silentLimit = 24 * time.Hour

	// mostStations is how many of them one finding names.
	mostStations = 10
)

// checkStations finds stations that a person has to visit.
func checkStations(ctx context.Context, g *subject, s *sheet) {
	if !g.runs() {
		s.skip("only a running gateway knows them", "")
		return
	}
	all, err := g.gateway.Stations(ctx)
	if err != nil {
		s.unread("the stations", err)
		return
	}
	var never, silent, low []string
	online := 0
	for _, st := range all {
		name := "station " + st.ID.String()
		if st.Name != "" {
			name += " " + st.Name
		}
		switch {
		case st.Status == site.Online:
			online++
		case st.LastConnection.IsZero():
			never = append(never, name+": enrolled at "+moment(st.Enrolled.Time))
		case g.status.Clock.Now.Sub(st.LastConnection.Time) > silentLimit:
			silent = append(silent, name+": silent since "+moment(st.LastConnection.Time))
		}
		if v := st.BatteryVoltage; v != nil && *v < g.settings.Station.BatteryLow {
			low = append(low, fmt.Sprintf("%s: %.2f V", name, *v))
		}
	}
	if len(silent) > 0 {
		s.warn(plural(len(silent), "station")+" silent for more than a day", "check their power and their network; gatehouse station watch shows when one is back", first(silent)...)
	}
	if len(low) > 0 {
		s.warn(plural(len(low), "station")+" with a low battery", "change the batteries", first(low)...)
	}
	if len(never) > 0 {
		s.notice(plural(len(never), "station")+" enrolled and never connected", "configure its MQTT login; gatehouse station rotate N issues a new one", first(never)...)
	}
	s.fine(fmt.Sprintf("%d of %d online", online, len(all)))
}

// first returns the first stations of a finding and the number of the others.
func first(stations []string) []string {
	if more := len(stations) - mostStations; more > 0 {
		return append(stations[:mostStations:mostStations], fmt.Sprintf("and %d more", more))
	}
	return stations
}
