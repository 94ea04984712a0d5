package provision

import (
	"fmt"
	"strconv"
	"strings"

	"gatehouse/internal/door/station"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// defaultLocks is how many locks a station gets when the site does not say.
const defaultLocks = 1

func (w *plan) stationsToRemove() (steps []step) {
	for _, s := range w.stations.Stations() {
		if !w.goes(s.ID) {
			continue
		}
		steps = append(steps, step{
			change: change(site.KindStationRemoved, wordsOf(s.ID, s.Name)),
			draft:  func(d *draft) error { return d.add(w.stations.DraftRemoval(d.by, s.ID), nil) },
		})
	}
	return steps
}

// goes reports whether a station of the gateway is to be removed.
func (w *plan) goes(id site.StationID) bool { return w.prune && !w.named.stations[id] }

func (w *plan) stationsToChange() (steps []step) {
	for _, s := range w.site.Stations {
		if old, there := w.stationByID[s.ID]; there {
			steps = append(steps, w.changeStation(old, s)...)
		} else {
			steps = append(steps, w.addStation(s))
		}
	}
	return steps
}

func (w *plan) addStation(s sitefile.Station) step {
	request := station.EnrolRequest{ID: s.ID, Name: nameOf(s, ""), Locks: locksOf(s, defaultLocks), Secret: s.Secret, Token: s.Token}
	what := fmt.Sprintf("%s, %s", wordsOf(s.ID, request.Name), locksText(request.Locks))
	return step{change: change(site.KindStationAdded, what), draft: func(d *draft) error {
		made, added, err := w.stations.Draft(d.by, request)
		if err != nil {
			return err
		}
		d.result.Stations = append(d.result.Stations, sitefile.IssuedStation{ID: s.ID, Token: made.Token, Secret: made.Secret})
		return d.add(added, nil)
	}}
}

func (w *plan) changeStation(old site.Station, s sitefile.Station) (steps []step) {
	name, locks := nameOf(s, old.Name), locksOf(s, old.Locks)
	if news := differences(old, name, locks); news != "" {
		steps = append(steps, step{
			change: change(site.KindStationChanged, wordsOf(s.ID, old.Name)+": "+news),
			draft:  func(d *draft) error { return d.add(w.stations.DraftUpdate(d.by, d.stations[s.ID], name, locks)) },
		})
	}
	if s.Secret != "" && !w.stations.SecretMatches(s.ID, s.Secret) {
		steps = append(steps, step{
			change: change(site.KindStationRotated, wordsOf(s.ID, old.Name)+": new secret"),
			draft:  func(d *draft) error { return d.add(w.stations.DraftSecret(d.by, d.stations[s.ID], s.Secret)) },
		})
	}
	return steps
}

func differences(old site.Station, name string, locks int) string {
	var news []string
	if name != old.Name {
		news = append(news, "name "+strconv.Quote(name))
	}
	if locks != old.Locks {
		news = append(news, locksText(locks))
	}
	return strings.Join(news, ", ")
}

// tokens gives the changes of station tokens in an order in which each token is
// free when its turn comes; tokens that will not be free are problems.
func (w *plan) tokens() (steps []step) {
	holder, moving := map[site.Secret]site.StationID{}, map[site.StationID]bool{}
	for id, s := range w.stationByID {
		if !w.goes(id) {
			holder[s.Token] = id
		}
	}
	var waiting []sitefile.Station
	for _, s := range w.site.Stations {
		old, there := w.stationByID[s.ID]
		if there && s.Token != "" && s.Token != old.Token {
			moving[s.ID] = true
			waiting = append(waiting, s)
		}
	}
	for _, s := range w.site.Stations {
		if other, held := holder[s.Token]; held && s.Token != "" && other != s.ID && !moving[other] {
			w.problem("station %d cannot have its token: station %d has it on the gateway", s.ID, other)
			delete(moving, s.ID)
		}
	}
	return w.inTurn(waiting, holder)
}

// inTurn orders stations that take a new token, each after the one that gives it
// up; those that go round in a ring are a problem.
func (w *plan) inTurn(waiting []sitefile.Station, holder map[site.Secret]site.StationID) (steps []step) {
	for len(waiting) > 0 {
		var later []sitefile.Station
		for _, s := range waiting {
			if _, held := holder[s.Token]; held {
				later = append(later, s)
				continue
			}
			old := w.stationByID[s.ID]
			delete(holder, old.Token)
			holder[s.Token] = s.ID
			steps = append(steps, step{
				change: change(site.KindStationChanged, wordsOf(s.ID, old.Name)+": new station token"),
				draft:  func(d *draft) error { return d.add(w.stations.DraftToken(d.by, d.stations[s.ID], s.Token)) },
			})
		}
		if len(later) == len(waiting) {
			w.stuck(later, holder)
			return steps
		}
		waiting = later
	}
	return steps
}

// stuck states the problem of tokens that cannot be exchanged, unless a problem
// was stated that explains it.
func (w *plan) stuck(waiting []sitefile.Station, holder map[site.Secret]site.StationID) {
	if len(w.problems) > 0 {
		return
	}
	for _, s := range waiting {
		w.problem("station %d cannot have the token of station %d while that takes another of these: give one of them a new token first", s.ID, holder[s.Token])
	}
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
