package httpapi

import (
	"net/http"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// maxStreams bounds the event streams that are open at once.
	maxStreams = 256
	// maxStreamsPerAccount bounds those of one account.
	maxStreamsPerAccount = 16
	// heartbeatEvery is how often a quiet stream says that it lives, so that neither
	// end takes a dead connection for a quiet one.
	heartbeatEvery = 15 * time.Second
	// leaveEvery is how soon a stream notices that its leave has ended.
	leaveEvery = time.Second
	// writeTimeout is how long a reader may take for one write.
	writeTimeout = 10 * time.Second
	// streamRetry is when a client that has too many streams may try again.
	streamRetry = 30 * time.Second
)

// events streams the events of one station (see the package doc).
func (a *API) events(x *exchange) {
	st, ok := x.visible()
	if !ok {
		x.fail(errStation())
		return
	}
	if !a.streams.Enter(x.actor.Account) {
		a.metrics.Refused("event-streams")
		x.fail(fault.Throttle("Too many event streams", streamRetry))
		return
	}
	defer a.streams.Leave(x.actor.Account)
	x.Streaming()
	access, _ := bearerToken(x.r.Header)
	s := &stream{x: x, out: http.NewResponseController(x.w), station: st, access: access}
	s.run()
}

// stream is one client that follows one station. Its steps give false to end it.
type stream struct {
	x       *exchange
	out     *http.ResponseController
	station site.Station
	access  site.Secret // its access token, asked again and again
	seen    uint64      // every event of the station up to this number has been sent
}

// run ends when the client goes, the server stops, or the leave ends.
func (s *stream) run() {
	wake, cancel := s.x.api.stations.Subscribe()
	defer cancel()
	defer s.extend() // for the end of the response
	if !s.open() {
		return
	}
	leave, heartbeat := time.NewTicker(leaveEvery), time.NewTicker(heartbeatEvery)
	defer leave.Stop()
	defer heartbeat.Stop()
	for next := s.mayStay; next(); {
		select {
		case <-s.x.r.Context().Done():
			return
		case <-s.x.api.draining:
			return
		case <-wake:
			next = s.catchUp
		case <-heartbeat.C:
			next = s.beat
		case <-leave.C:
			next = s.mayStay
		}
	}
}

// open sends the header and what the client has to know first.
func (s *stream) open() bool {
	h := s.x.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for a proxy in between
	s.x.WriteHeader(http.StatusOK)
	if s.x.r.Method == http.MethodHead {
		return false
	}
	last := s.x.r.Header.Get("Last-Event-ID")
	at, ok := parsePosition(last)
	switch {
	case last == "":
		return s.present(false)
	case !ok || at.boot != s.x.api.boot:
		return s.present(true)
	}
	s.seen = at.number
	return s.catchUp() && s.flush()
}

// mayStay asks anew what was asked when the stream began.
func (s *stream) mayStay() bool {
	actor, err := s.x.api.access.Authenticate(s.access)
	if err != nil || !s.x.api.access.Permits(actor.Account, s.station.ID) {
		return false
	}
	st, ok := s.x.api.stations.Station(s.station.ID)
	return ok && st.Token == s.station.Token
}

// present sends the object as it is now. The number is taken first: an event in
// between is sent again, none is left out.
func (s *stream) present(gap bool) bool {
	s.seen = s.x.api.stations.Latest()
	state, ok := s.x.api.stations.State(s.station.ID)
	if !ok {
		return false
	}
	b := s.x.buf[:0]
	if gap {
		b = append(appendEvent(b, "gap", nowhere()), "{}\n\n"...)
	}
	return s.send(appendStation(b, position{s.x.api.boot, s.seen}, state))
}

// catchUp sends what has happened to the station since.
func (s *stream) catchUp() bool {
	events, gap := s.x.api.stations.EventsSince(s.seen, s.station.ID)
	if gap {
		return s.present(true)
	}
	b := s.x.buf[:0]
	for _, e := range events {
		if len(b) >= maxBuffer {
			if !s.send(b) {
				return false
			}
			b = s.x.buf[:0]
		}
		b = appendStation(b, position{e.Boot, e.Number}, e.State)
		s.seen = e.Number
	}
	return len(b) == 0 || s.send(b)
}

// beat sends a comment.
func (s *stream) beat() bool { return s.send(append(s.x.buf[:0], ": heartbeat\n\n"...)) }

func appendStation(b []byte, at position, state site.StationState) []byte {
	return append(appendState(appendEvent(b, "station", at), state), "\n\n"...)
}

// appendEvent appends an event up to where its data begins.
func appendEvent(b []byte, name string, at position) []byte {
	b = append(append(b, "event: "...), name...)
	b = at.append(append(b, "\nid: "...))
	return append(b, "\ndata: "...)
}

// send writes and flushes, if the leave still holds; a reader that does not take it
// in time loses the stream.
func (s *stream) send(b []byte) bool {
	s.x.buf = b
	if !s.mayStay() {
		return false
	}
	s.extend()
	if _, err := s.x.Write(b); err != nil {
		return false
	}
	return s.flush()
}

func (s *stream) flush() bool { return s.out.Flush() == nil }

func (s *stream) extend() { _ = s.out.SetWriteDeadline(time.Now().Add(writeTimeout)) }
