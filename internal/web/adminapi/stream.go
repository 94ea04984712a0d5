package adminapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"gatehouse/internal/fault"
)

// stayEvery is how often a stream checks that its caller may still read it.
const stayEvery = time.Second

// pulse is how often an idle stream sends an empty line, so that a peer that is
// gone is noticed.
const pulse = 15 * time.Second

// streamRetry is what someone is told to wait for whom there is no stream.
const streamRetry = 10 * time.Second

// stream writes one JSON document per line. Nothing is sent before the first
// line, so that what fails before it gets a status.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	ended   <-chan struct{}
	stays   func() bool // whether the caller may still read the stream
	started bool
}

// serveStream runs a route that answers with a stream.
func (a *API) serveStream(w http.ResponseWriter, r *http.Request, rt route) {
	streams, in := a.streams[doorOf(r.Context())], newRequest(w, r)
	if !streams.Enter(in.by.Account) {
		a.refuse(w, r, rt.pattern(), fault.Throttle("Too many streams are open", streamRetry))
		return
	}
	defer streams.Leave(in.by.Account)
	if in.exchange != nil {
		in.exchange.Streaming()
	}
	s := &stream{w: w, control: http.NewResponseController(w), ended: a.ended, stays: staysOf(r.Context())}
	_ = s.control.SetReadDeadline(time.Time{}) // the server's is meant for requests
	err := rt.stream(in, s)
	if err == nil && r.Context().Err() == nil && !s.stays() {
		err = errRevoked()
	}
	switch {
	case err != nil && !s.started:
		a.refuse(w, r, rt.pattern(), err)
	case err != nil && r.Context().Err() == nil:
		_, body := a.explain(r, rt.pattern(), err)
		_ = s.line(body)
	case s.over():
		_ = s.line(ErrorBody{Message: "The gateway is being stopped"})
		fallthrough
	default:
		a.Metrics.Request(rt.pattern(), rt.status)
	}
}

// start sends the header.
func (s *stream) start() error {
	if s.started {
		return nil
	}
	s.started = true
	h := s.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/x-ndjson")
	s.w.WriteHeader(http.StatusOK)
	return s.flush()
}

// errRevoked ends the stream of a caller whose session, account or role has ended.
func errRevoked() error { return fault.New(fault.Unauthenticated, "Token is invalid") }

// send writes one line, if the caller may still read it.
func (s *stream) send(item any) error {
	if !s.stays() {
		return errRevoked()
	}
	return s.line(item)
}

// line writes one line.
func (s *stream) line(item any) error {
	if err := s.start(); err != nil {
		return err
	}
	line, err := json.Marshal(item)
	if err != nil {
		return err
	}
	return s.write(append(line, '\n'))
}

func (s *stream) write(line []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.w.Write(line)
	return err
}

func (s *stream) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return s.control.Flush()
}

// over reports whether streams are to end.
func (s *stream) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// wait flushes what was sent and returns true when there may be more to send, or
// false when the stream is to end or the peer is gone.
func (s *stream) wait(ctx context.Context, wake <-chan struct{}) bool {
	if s.start() != nil || s.flush() != nil {
		return false
	}
	stay, beat := time.NewTicker(stayEvery), time.NewTicker(pulse)
	defer stay.Stop()
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-s.ended:
			return false
		case <-wake:
			return true
		case <-stay.C:
			if !s.stays() {
				return false
			}
		case <-beat.C:
			if s.write([]byte("\n")) != nil || s.flush() != nil {
				return false
			}
		}
	}
}
