package kit

import (
	"net/http"
	"time"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/fault"
)

const (
	// MaxRequests bounds the requests in flight on all listeners, but for event
	// streams, which have a bound of their own. Each may hold a header and a body of 16
	// KiB.
	MaxRequests = 256
	// requestRetry is when a client may retry that was refused because all requests are
	// being worked on.
	requestRetry = time.Second
)

// turn is the place of one request among those in flight, over all connections. A
// request whose body has not arrived, or whose answer is not taken, is evicted by newer
// ones of other addresses, and its connection with it; one that the gateway works on is
// not.
type turn struct {
	place admission.Place
	conn  *Conn // nil: the request came on no connection of ours
	holds bool  // it is being worked on

	urgent bool // handshakes wait for it
}

// enter acquires a place for the request of x; false if all are taken by requests that
// are being worked on.
func (x *Exchange) enter() bool {
	t := &x.turn
	conn, ok := x.Req.Context().Value(connKey{}).(*Conn)
	if !ok {
		return true
	}
	if x.kit.requests.Enter(&t.place, conn.address, conn) != nil {
		x.kit.metrics.Refused("http-requests")
		x.fail(fault.Throttle("Too many requests at once", requestRetry))
		return false
	}
	t.conn = conn
	return true
}

// work marks the request as one that the gateway works on.
func (t *turn) work() {
	if t.conn == nil || t.holds {
		return
	}
	t.holds = true
	t.place.Hold()
	t.conn.place.Hold()
}

// Opening marks the request as one that opens a door: the gateway works on it, and TLS
// handshakes wait for it.
func (x *Exchange) Opening() {
	x.turn.work()
	x.turn.urgent = x.turn.urgent || x.kit.handshakes.Yield()
}

// Waiting reports whether the client still waits for the answer. A request may have
// waited in a dead link, or in the socket of a frozen process, with the client's FIN right
// after it. The request's context ends when net/http has read the FIN, which takes a
// moment; the kernel knows it at once.
func (x *Exchange) Waiting() bool {
	if x.Req.Context().Err() != nil {
		return false
	}
	conn, ok := x.Req.Context().Value(connKey{}).(*Conn)
	return !ok || !admission.HungUp(conn)
}

// leave ends the request. It waits for an answer that HTTP/2 holds back because its
// client does not read it: the request still has its place and may be evicted.
func (x *Exchange) leave() {
	t := &x.turn
	if t.urgent {
		t.urgent = false
		x.kit.handshakes.Resume()
	}
	if t.conn == nil {
		return
	}
	if t.holds {
		t.holds = false
		t.place.Release()
		t.conn.place.Release()
	}
	if x.Req.ProtoMajor == 2 {
		_ = http.NewResponseController(x.w).Flush()
	}
	t.place.Leave()
	t.conn = nil
}
