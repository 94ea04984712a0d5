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
	wake, cancel := f.api.Stations.SubscribeTo(f.station.ID)
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
	if last == "" {
		return f.present(false)
	}
	seen, known := f.api.eventNumber(last)
	if !known {
		return f.present(true)
	}
	f.seen = seen
	return f.catchUp()
}

// eventNumber returns the number in the id of an event, and whether it may be resumed
// from: it is of this start of the process, or of one before it whose events were kept.
func (a *API) eventNumber(id string) (number uint64, known bool) {
	i := max(strings.LastIndexByte(id, '-'), 0)
	boot := site.BootID(id[:i])
	number, err := strconv.ParseUint(strings.TrimPrefix(id[i:], "-"), 10, 64)
	latest, kept := a.Stations.Adopted(boot)
	return number, err == nil && (boot == a.Boot || kept && number <= latest)
}

// present sends the object as it is now. The number is read first: an event in between
// is sent again, none is omitted.
func (f *follower) present(gap bool) error {
	f.seen = f.api.Stations.Latest()
	state, ok := f.api.Stations.State(f.station.ID)
	if !ok {
		return errStation()
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if gap {
		if err := f.send("gap", nowhere, []byte("{}")); err != nil {
			return err
		}
	}
	return f.send("station", f.id(f.seen), data)
}

// catchUp sends what has happened to the station since.
func (f *follower) catchUp() error {
	events, gap := f.api.Stations.EventsSince(f.seen, f.station.ID)
	if gap {
		return f.present(true)
	}
	for _, e := range events {
		data, err := e.JSON()
		if err == nil {
			err = f.send("station", f.id(e.Number), data)
		}
		if err != nil {
			return err
		}
		f.seen = e.Number
	}
	return nil
}

// send sends one event.
func (f *follower) send(name, id string, data []byte) error {
	return f.stream.Send(fmt.Appendf(nil, "event: %s\nid: %s\ndata: %s\n\n", name, id, data))
}

// id returns the id of an event: its number, and a start of the process that knows it.
func (f *follower) id(number uint64) string {
	return string(f.api.Boot) + "-" + strconv.FormatUint(number, 10)
}

// nowhere is the id of a gap. It belongs to no start of the process, so that a client
// that loses the connection between the gap and the object gets the gap again.
const nowhere = "00000000-0000-0000-0000-000000000000-0"
