package provision

import (
	"cmp"

	"gatehouse/internal/door/station"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// defaultLocks is how many locks a station gets when the site does not say.
const defaultLocks = 1

func (w *plan) putStations() error {
	for _, s := range w.site.Stations {
		put := w.addStation
		if _, there := w.stationByID[s.ID]; there {
			put = w.changeStation
		}
		if err := put(s); err != nil {
			return err
		}
	}
	return nil
}

func (w *plan) addStation(s sitefile.Station) error {
	request := station.EnrolRequest{ID: s.ID, Name: nameOf(s, ""), Locks: cmp.Or(s.Locks, defaultLocks), Secret: s.Secret, Token: s.Token, HomeAssistant: s.HomeAssistant}
	enrolled, added, err := w.stations.Draft(w.by, request)
	if err == nil {
		w.result.Stations = append(w.result.Stations, sitefile.Issue(s.ID, enrolled.Token, enrolled.Secret))
	}
	return w.add(err, added)
}

// changeStation drafts each change of a station on top of the one before: each is a
// whole station.
func (w *plan) changeStation(s sitefile.Station) error {
	old := w.stationByID[s.ID]
	st := old
	if s.Token != "" && s.Token != old.Token {
		drafted, err := w.stations.DraftToken(w.by, &st, s.Token)
		if err := w.add(err, drafted); err != nil {
			return err
		}
	}
	patch, before := station.Patch{Name: s.Name}, st
	if s.Locks != 0 {
		patch.Locks = &s.Locks
	}
	if s.HomeAssistant != "" {
		patch.HomeAssistant = &s.HomeAssistant
	}
	drafted, err := w.stations.DraftUpdate(w.by, &st, patch)
	if err != nil || st != before {
		if err := w.add(err, drafted); err != nil {
			return err
		}
	}
	if s.Secret != "" && !w.stations.SecretMatches(s.ID, s.Secret) {
		drafted, err := w.stations.DraftSecret(w.by, &st, s.Secret)
		return w.add(err, drafted)
	}
	return nil
}

func nameOf(s sitefile.Station, old string) string {
	if s.Name == nil {
		return old
	}
	name, _ := site.CleanStationName(*s.Name) // the site has been checked
	return name
}
