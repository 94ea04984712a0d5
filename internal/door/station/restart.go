package station

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"gatehouse/internal/site"
)

// maxRuns is how many runs of the process before this one are remembered: clients that
// were away for more restarts read the state anew.
const maxRuns = 16

// maxPacked is the size of packed events in clear text that is not believed, in bytes:
// more than the most locks and the longest texts take.
const maxPacked = 16 << 20

// run is one run of the process, and the number of its newest event.
type run struct {
	Boot   site.BootID `json:"boot"`
	Latest uint64      `json:"latest"`
}

// packedEvents are the events as one run of the process leaves them to the next.
type packedEvents struct {
	Runs      []run                     `json:"runs"` // oldest first
	Forgotten map[site.StationID]uint64 `json:"forgotten"`
	Events    []site.StationState       `json:"events"` // the last of them is the newest of the last run
}

// PackEvents returns the remembered events and their numbers for the next run of the
// process; boot is this one. To be called after [Service.Run]. ok is false, and the next
// run must begin without events, if one is missing or would mislead: a station is still
// online, or a state is not on the disk.
func (s *Service) PackEvents(boot site.BootID) (packed []byte, ok bool) {
	for _, l := range s.all() {
		l.mu.Lock()
		unfinished := l.online() || l.dirty
		l.mu.Unlock()
		if unfinished {
			return nil, false
		}
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	err := errors.Join(json.NewEncoder(w).Encode(s.leave(boot)), w.Close())
	return out.Bytes(), err == nil
}

// AdoptEvents continues with the events that the last run has packed. To be called
// before the first event and the first reader. Damaged ones are an error and change
// nothing, and so are those of another run: an older version may have run since, which
// packs none.
func (s *Service) AdoptEvents(packed []byte, last site.BootID) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpacking the events: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxPacked)) // to the end, where the checksum is
	var p packedEvents
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return fmt.Errorf("reading the events: %w", err)
	}
	return s.adoptEvents(p, last)
}

// leave returns the events for the next run.
func (g *eventLog) leave(boot site.BootID) packedEvents {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := packedEvents{Forgotten: maps.Clone(g.forgotten), Runs: append(slices.Clone(g.adopted), run{boot, g.latest})}
	p.Runs = p.Runs[max(0, len(p.Runs)-maxRuns):]
	for _, e := range g.kept {
		p.Events = append(p.Events, e.State)
	}
	return p
}

func (g *eventLog) adoptEvents(p packedEvents, last site.BootID) error {
	if len(p.Runs) == 0 || p.Runs[len(p.Runs)-1].Boot != last {
		return errors.New("the events are not of the last run")
	}
	latest, count := p.Runs[len(p.Runs)-1].Latest, uint64(len(p.Events))
	if count != min(latest, keptEvents) {
		return fmt.Errorf("%d events are not the last of %d", count, latest)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.adopted, g.latest = p.Runs, latest-count
	maps.Copy(g.forgotten, p.Forgotten)
	for _, state := range p.Events {
		g.keep(state)
	}
	return nil
}

// Adopted returns the number of the newest event of an earlier run of the process, and
// whether its events go on in this one.
func (g *eventLog) Adopted(boot site.BootID) (latest uint64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.adopted, func(r run) bool { return r.Boot == boot })
	if i < 0 {
		return 0, false
	}
	return g.adopted[i].Latest, true
}
