package kit

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
)

const (
	// MaxStreams bounds the streams of accounts that are open at once.
	MaxStreams = 1152
	// MaxStreamsPerAccount bounds those of one account.
	MaxStreamsPerAccount = 64
	// maxAdminStreams bounds those of administrators, and again those of the users of this
	// machine, on the admin socket, so that no account keeps either of them waiting.
	maxAdminStreams = 128
	// maxUserStreams bounds those of one user, so that no tool keeps root waiting.
	maxUserStreams = 32
	// pulseEvery is how often a quiet stream sends something, so that neither end takes
	// a dead connection for a quiet one.
	pulseEvery = 15 * time.Second
	// stayEvery is how soon a stream notices that its caller may no longer read it.
	stayEvery = time.Second
	// WriteTimeout is how long a client may take to receive one write.
	WriteTimeout = 10 * time.Second
	// linesPerSecond bounds what all streams of accounts together send of what happens, and
	// again those of administrators, so that a thousand followers of a station that changes
	// all the time keep no door and no administrator waiting. A stream that is due later
	// sends more at once. lineBurst is sent without any delay.
	linesPerSecond, lineBurst = 1000, 2000
	// mostCharged bounds the share of one stream for what it sends at once.
	mostCharged = 64
	// streamRetry is when a client that has too many streams may try again.
	streamRetry = 30 * time.Second
)

// Format is what the streams of one kind look like.
type Format struct {
	contentType string
	pulse       string
	lastError   bool // whether an error is the last line
}

// Lines is the format of one JSON document a line; empty lines are signs of life. A
// stream that breaks off ends with an [ErrorBody].
func Lines() Format { return Format{"application/x-ndjson", "\n", true} }

// Table is the format of CSV. A stream that breaks off ends with an [ErrorBody].
func Table() Format { return Format{"text/csv; charset=utf-8", "", true} }

// Events is the format of server-sent events.
func Events() Format { return Format{"text/event-stream", ": heartbeat\n\n", false} }

// Stream is an answer that lasts. Nothing is sent before the first write or wait, so
// that what fails before it gets a status.
type Stream struct {
	x           *Exchange
	out         *http.ResponseController
	format      Format
	stays       func() bool
	stay, pulse *time.Ticker
	lines       *rate.Limiter
	started     bool
	follows     bool // it has waited
	sent        int  // lines or events since it last waited
}

// Follow answers with the stream that run writes. It ends when the client disconnects,
// the kit drains, the guard of the route no longer admits the caller or stays, which may
// be nil, is false: then [Stream.Send] fails and [Stream.Wait] returns false. A body is
// discarded first: net/http reads it before it sends the header, and a stream has no
// deadline for that.
func (x *Exchange) Follow(format Format, stays func() bool, run func(*Stream) error) error {
	if _, err := x.receive(MaxBody); err != nil {
		return err
	}
	path := x.path()
	who := path.keys[:2]
	if !x.kit.streams.Enter(who...) {
		x.Refused("event-streams")
		return fault.Throttle("Too many streams are open", streamRetry)
	}
	defer x.kit.streams.Leave(who...)
	lines := x.kit.adminLines
	if who[0].class == accounts {
		lines = x.kit.lines
	}
	x.work()
	x.stream = true
	x.slot.Leave() // it is no longer counted among the requests in flight
	s := &Stream{
		x: x, out: http.NewResponseController(x.w), format: format, stays: stays,
		stay: time.NewTicker(stayEvery), pulse: time.NewTicker(pulseEvery), lines: lines,
	}
	defer s.stay.Stop()
	defer s.pulse.Stop()
	_ = s.out.SetReadDeadline(time.Time{}) // the server's is meant for requests
	if x.Req.Method == http.MethodHead {
		return s.start()
	}
	err := run(s)
	defer x.Extend(WriteTimeout) // for the end of the response
	return s.end(err)
}

// newStreams returns the quota of open streams.
func newStreams() *limit.Quota[caller] {
	return limit.NewQuota(func(level int, who caller) int {
		of := [2][users + 1]int{
			{accounts: MaxStreams, administrators: maxAdminStreams, users: maxAdminStreams},
			{accounts: MaxStreamsPerAccount, administrators: MaxStreamsPerAccount, users: maxUserStreams},
		}
		return of[level][who.class]
	})
}

// end ends a stream whose run has returned err.
func (s *Stream) end(err error) error {
	if err == nil {
		err = s.start() // if there was nothing to send
	}
	switch {
	case s.started && s.x.Req.Context().Err() != nil:
		return nil //nolint:nilerr // the client wants no more
	case err == nil && !s.mayStay():
		err = errToken()
	case err == nil && s.Over():
		err = fault.New(fault.Unavailable, "The gateway is being stopped")
	}
	if err == nil || !s.started {
		return err
	}
	if statusOf(fault.KindOf(err)) == http.StatusInternalServerError {
		s.x.cause = err
	}
	if s.format.lastError {
		line, _ := json.Marshal(ErrorBody{fault.Sentence(err)}) // a text always encodes
		_ = s.write(append(line, '\n'))
	}
	return nil
}

// mayStay reports whether the caller may still read the stream.
func (s *Stream) mayStay() bool { return s.x.Admitted() && (s.stays == nil || s.stays()) }

// start sends the header, if it was not sent yet.
func (s *Stream) start() error {
	if s.started {
		return nil
	}
	s.started = true
	h := s.x.Header()
	h.Set("Content-Type", s.format.contentType)
	h.Set("X-Accel-Buffering", "no") // for a proxy in between
	s.x.WriteHeader(http.StatusOK)
	return s.flush()
}

// Send writes p, if the caller may still read the stream. A client that does not receive
// it in time loses the stream.
func (s *Stream) Send(p []byte) error {
	if err := s.x.awaitTurn(); err != nil { // which may be long over
		return err
	}
	if !s.mayStay() {
		return errToken()
	}
	if err := s.start(); err != nil {
		return err
	}
	s.sent += 1 + bytes.Count(p, []byte("\n{"))
	return s.write(p)
}

// SendLine writes a value as one line of JSON.
func (s *Stream) SendLine(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.Send(append(line, '\n'))
}

func (s *Stream) write(p []byte) error {
	s.x.Extend(WriteTimeout)
	_, err := s.x.Write(p)
	return err
}

func (s *Stream) flush() error {
	s.x.Extend(WriteTimeout)
	err := s.out.Flush()
	_ = s.out.SetWriteDeadline(time.Time{}) // HTTP/2 resets a stream at its deadline, even a quiet one
	return err
}

// Over reports whether streams are to end.
func (s *Stream) Over() bool { return s.x.kit.isDraining() }

// Wait flushes what was sent. It returns true when there may be more to send and it is the
// caller's turn, and false when the stream is to end.
func (s *Stream) Wait(wake <-chan struct{}) bool { return s.wait(wake, false) }

// wait is Wait; with tick it also returns true every second.
func (s *Stream) wait(wake <-chan struct{}, tick bool) bool {
	if s.start() != nil || s.flush() != nil {
		return false
	}
	s.x.turn.end()
	return s.sleep(wake, tick) && s.x.awaitTurn() == nil
}

// sleep waits until there may be more to send, or the stream is to end.
func (s *Stream) sleep(wake <-chan struct{}, tick bool) bool {
	rest := time.NewTimer(s.rest())
	defer rest.Stop()
	rested, awake := false, (<-chan struct{})(nil) // until it has rested
	for {
		select {
		case <-s.x.Req.Context().Done():
			return false
		case <-s.x.kit.draining:
			return false
		case <-rest.C:
			rested, awake = true, wake
		case <-awake:
			return true
		case <-s.stay.C:
			if !s.mayStay() {
				return false
			}
			if tick && rested {
				return true
			}
		case <-s.pulse.C:
			if s.write([]byte(s.format.pulse)) != nil || s.flush() != nil {
				return false
			}
		}
	}
}

// rest charges for what was sent, and returns how long the stream has to wait before it
// looks for more. What a stream begins with is free: it comes once.
func (s *Stream) rest() time.Duration {
	count := min(s.sent, mostCharged)
	if !s.follows {
		count = 0
	}
	s.follows, s.sent = true, 0
	return s.lines.ReserveN(time.Now(), count).Delay()
}
