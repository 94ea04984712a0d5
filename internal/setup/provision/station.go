package provision

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

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
	request := station.EnrolRequest{ID: s.ID, Name: nameOf(s, ""), Locks: locksOf(s, defaultLocks), Secret: s.Secret, Token: s.Token, HomeAssistant: s.HomeAssistant}
	enrolled, added, err := w.stations.Draft(w.by, request)
	if err == nil {
		w.result.Stations = append(w.result.Stations, sitefile.Issue(s.ID, enrolled.Token, enrolled.Secret))
	}
	return w.add(site.KindStationAdded, wordsOf(s.ID, request.Name)+", "+locksText(request.Locks), err, added)
}

// changeStation drafts each change of a station on top of the one before: each is a
// whole station.
func (w *plan) changeStation(s sitefile.Station) error {
	old := w.stationByID[s.ID]
	st := old
	words := wordsOf(s.ID, old.Name)
	if s.Token != "" && s.Token != old.Token {
		amendment, err := w.stations.DraftToken(w.by, &st, s.Token)
		if err := w.add(site.KindStationChanged, words+": new station token", err, amendment); err != nil {
			return err
		}
	}
	name, locks, mode := nameOf(s, old.Name), locksOf(s, old.Locks), cmp.Or(s.HomeAssistant, old.HomeAssistant)
	if news := differences(old, name, locks, mode); news != "" {
		amendment, err := w.stations.DraftUpdate(w.by, &st, name, locks, mode)
		if err := w.add(site.KindStationChanged, words+": "+news, err, amendment); err != nil {
			return err
		}
	}
	if s.Secret != "" && !w.stations.SecretMatches(s.ID, s.Secret) {
		amendment, err := w.stations.DraftSecret(w.by, &st, s.Secret)
		return w.add(site.KindStationRotated, words+": new secret", err, amendment)
	}
	return nil
}

func differences(old site.Station, name string, locks int, mode site.HomeAssistantMode) string {
	var news []string
	if name != old.Name {
		news = append(news, "name "+strconv.Quote(name))
	}
	if locks != old.Locks {
		news = append(news, locksText(locks))
	}
	if mode != old.HomeAssistant {
		news = append(news, "Home Assistant: "+string(mode))
	}
	return strings.Join(news, ", ")
}

func nameOf(s sitefile.Station, old string) string {
	if s.Name == nil {
		return old
	}
	name, _ := site.CleanStationName(*s.Name) // the site has been checked
	return name
}

func locksOf(s sitefile.Station, old int) int {
	if s.Locks == 0 {
		return old
	}
	return s.Locks
}

// stationWords words a station by the name that it has after the apply.
func (w *plan) stationWords(id site.StationID) string { return wordsOf(id, w.stationNames[id]) }

// wordsOf words a station: "station 1042 (North entrance)".
func wordsOf(id site.StationID, name string) string {
	if name == "" {
		return "station " + id.String()
	}
	return fmt.Sprintf("station %s (%s)", id, name)
}

func locksText(n int) string {
	if n == 1 {
		return "1 lock"
	}
	return strconv.Itoa(n) + " locks"
}
