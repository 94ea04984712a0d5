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
	return ok && st.Token == f.station.Token && f.api.Access.MayRead(f.x.Req.Actor.Account, f.station.ID)
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
	number, ours := strings.CutPrefix(last, f.id(""))
	seen, err := strconv.ParseUint(number, 10, 64)
	switch {
	case last == "":
		return f.present(false)
	case !ours || err != nil:
		return f.present(true)
	}
	f.seen = seen
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
		if err := f.send("gap", nowhere, struct{}{}); err != nil {
			return err
		}
	}
	return f.send("station", f.id(strconv.FormatUint(f.seen, 10)), state)
}

// catchUp sends what has happened to the station since.
func (f *follower) catchUp() error {
	events, gap := f.api.Stations.EventsSince(f.seen, f.station.ID)
	if gap {
		return f.present(true)
	}
	for _, e := range events {
		if err := f.send("station", f.id(strconv.FormatUint(e.Number, 10)), e.State); err != nil {
			return err
		}
		f.seen = e.Number
	}
	return nil
}

// send sends one event.
func (f *follower) send(name, id string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return f.stream.Send(fmt.Appendf(nil, "event: %s\nid: %s\ndata: %s\n\n", name, id, data))
}

// id returns the id of an event: its number within one start of the process.
func (f *follower) id(number string) string { return string(f.api.Boot) + "-" + number }

// nowhere is the id of a gap. It belongs to no start of the process, so that a client
// that loses the connection between the gap and the object gets the gap again.
const nowhere = "00000000-0000-0000-0000-000000000000-0"
