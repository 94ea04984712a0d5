package httpapi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// events streams the events of one station (see the package doc).
func (a *API) events(x *kit.Exchange) error {
	st, ok := a.visible(x)
	if !ok {
		return errStation()
	}
	f := &follower{api: a, x: x, station: st}
	return x.Follow(kit.Events(), f.mayStay, f.run)
}

// follower is one client that follows one station.
type follower struct {
	api     *API
	x       *kit.Exchange
	stream  *kit.Stream
	station site.Station
	seen    uint64 // every event of the station up to this number has been sent
}

// mayStay reports whether the account may still use the station, and its token is the
// one in the path.
func (f *follower) mayStay() bool {
	st, ok := f.api.Stations.Station(f.station.ID)
	return ok && st.Token == f.station.Token && f.api.Access.Permits(f.x.Req.Actor.Account, f.station.ID)
}

// run sends events until the stream is to end.
func (f *follower) run(s *kit.Stream) error {
	f.stream = s
	wake, cancel := f.api.Stations.Subscribe()
	defer cancel()
	err := f.begin()
	for err == nil && s.Wait(wake) {
		err = f.catchUp()
	}
	return err
}

// begin sends what the client has to know first.
func (f *follower) begin() error {
	last := f.x.Req.Header.Get("Last-Event-ID")
	at, ok := parsePosition(last)
	switch {
	case last == "":
		return f.present(false)
	case !ok || at.boot != f.api.Boot:
		return f.present(true)
	}
	f.seen = at.number
	return f.catchUp()
}

// present sends the object as it is now. The number is read first: an event in between
// is sent again, none is omitted.
func (f *follower) present(gap bool) error {
	f.seen = f.api.Stations.Latest()
	state, ok := f.api.Stations.State(f.station.ID)
	if !ok {
		return errStation()
	}
	if gap {
		if err := f.send("gap", nowhere(), struct{}{}); err != nil {
			return err
		}
	}
	return f.send("station", position{f.api.Boot, f.seen}, state)
}

// catchUp sends what has happened to the station since.
func (f *follower) catchUp() error {
	events, gap := f.api.Stations.EventsSince(f.seen, f.station.ID)
	if gap {
		return f.present(true)
	}
	for _, e := range events {
		if err := f.send("station", position{e.Boot, e.Number}, e.State); err != nil {
			return err
		}
		f.seen = e.Number
	}
	return nil
}

// send sends one event.
func (f *follower) send(name string, at position, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return f.stream.Send(fmt.Appendf(nil, "event: %s\nid: %s-%d\ndata: %s\n\n", name, at.boot, at.number, data))
}

// position is the id of an event: its number within one start of the process.
type position struct {
	boot   site.BootID
	number uint64
}

// nowhere is the position of a gap. It belongs to no start of the process, so that a
// client that loses the connection between the gap and the object gets the gap again.
func nowhere() position { return position{boot: "00000000-0000-0000-0000-000000000000"} }

// parsePosition reads "<boot>-<number>".
func parsePosition(text string) (position, bool) {
	i := strings.LastIndexByte(text, '-')
	if i < 1 {
		return position{}, false
	}
	number, err := strconv.ParseUint(text[i+1:], 10, 64)
	return position{site.BootID(text[:i]), number}, err == nil
}
