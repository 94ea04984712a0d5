package kit

import (
	"context"
	"net/http"
	"time"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
)

const (
	// MaxRequests bounds the requests in flight on all listeners, except streams, which
	// have a bound of their own. Each may hold a header and a body of 16 KiB.
	MaxRequests = 256
	// strangerPlaces, accountPlaces and adminPlaces bound those of each class that change
	// something and are being worked on or wait for that, except doors: while the disk does not
	// answer, each lasts for seconds. Users of this machine are administrators there.
	strangerPlaces, accountPlaces, adminPlaces = MaxRequests / 2, MaxRequests / 4, MaxRequests / 8
	// requestRetry is when a client may retry that was refused because all requests are
	// being worked on.
	requestRetry = time.Second
)

// enter acquires a slot for the request of x among those in flight, over all connections;
// false if all are taken by requests that are being worked on. A request whose body has
// not arrived, or whose answer is not taken, is evicted by newer ones of other addresses,
// and its connection with it; one that the gateway works on is not.
func (x *Exchange) enter() bool {
	if x.conn.Conn != nil && x.kit.requests.Enter(&x.slot, x.conn.address, x.conn) != nil {
		x.fail(x.crowded())
		return false
	}
	return true
}

// crowded returns the error of a request for which there is no room. Its answer waits for no
// turn.
func (x *Exchange) crowded() error {
	x.Refused("http-requests")
	if x.turn == nil {
		x.beginTurn(func() {})
	}
	return fault.Throttle("Too many requests at once", requestRetry)
}

// newChanges returns the quota of the requests in flight that change something. An eighth of
// all is left for doors, and for what changes nothing.
func newChanges() *limit.Quota[caller] {
	return limit.NewQuota(func(level int, who caller) int {
		if level > 0 {
			return 0
		}
		return [...]int{strangers: strangerPlaces, accounts: accountPlaces, administrators: adminPlaces}[who.class]
	})
}

// change marks the request as one that changes something; false where its caller has too
// many of them in flight.
func (x *Exchange) change() bool {
	who := x.path()
	if who.keys[0].class == users {
		who.keys[0].class = administrators
	}
	if !x.kit.changes.Enter(who.keys[:who.depth]...) {
		return false
	}
	x.counted = &who
	x.work()
	return true
}

// hurry has the handler wait for nothing: what it revokes takes effect, and is stored later.
// So nobody who has all places for changes, while the disk does not answer, keeps another from
// revoking a right.
func (x *Exchange) hurry() {
	ctx, cancel := context.WithTimeout(x.Req.Context(), 0)
	cancel()
	x.Req.Request, x.hurried = x.Req.WithContext(ctx), true
}

// Hurried reports whether the handler must not wait for the store, because there is no place for
// the request. Its context has ended then.
func (x *Exchange) Hurried() bool { return x.hurried }

// work marks the request as one that the gateway works on.
func (x *Exchange) work() {
	if !x.working {
		x.working = true
		x.hold()
	}
}

// hold keeps the request and its connection from being evicted until release.
func (x *Exchange) hold() {
	x.slot.Hold()
	x.conn.slot.Hold()
}

// release undoes one hold.
func (x *Exchange) release() {
	x.slot.Release()
	x.conn.slot.Release()
}

// opening marks the request as one that opens a door: the gateway works on it, and TLS
// handshakes and the turns of other requests wait for it. It began when the kernel had it: it
// may have waited there for the process, or behind the request before.
func (x *Exchange) opening() {
	x.work()
	x.backdate()
	x.urgent = true
	x.kit.turns.Pause()
	if x.kit.handshakes != nil {
		x.kit.handshakes.Pause()
	}
	if c := x.conn; c.Conn != nil && !c.address.IsLoopback() && time.Since(c.accepted) > provenAge {
		x.heard = time.Now().Add(admission.Acknowledge(c))
	}
}

// backdate has the request begin with its receipt. Where that is old, an HTTP/2 client is
// asked for a new connection: requests that have no handler keep the receipts of a connection
// old, such as one with a header that is too large.
func (x *Exchange) backdate() {
	if x.conn.in == nil {
		return
	}
	age := x.kit.beat.clock() - x.receipt
	if received := time.Now().Add(-age); received.Before(x.Req.Start) {
		x.Req.Start = received
	}
	if age > staleReceipt && x.Req.ProtoMajor == 2 {
		x.Header().Set("Connection", "close")
	}
}

// calm has other requests and handshakes wait no longer for what Opening began.
func (x *Exchange) calm() {
	if !x.urgent {
		return
	}
	x.urgent = false
	x.kit.turns.Resume()
	if x.kit.handshakes != nil {
		x.kit.handshakes.Resume()
	}
}

// leave ends the request, after its answer is with the kernel. HTTP/2 holds back what its
// client does not read: after its turn the request still has its slot and may be evicted.
func (x *Exchange) leave() {
	x.calm()
	if x.counted != nil {
		x.kit.changes.Leave(x.counted.keys[:x.counted.depth]...)
	}
	if x.turn == nil {
		x.beginTurn(func() {})
	}
	if x.working {
		x.release()
	}
	if x.status != 0 && !x.broken {
		_ = http.NewResponseController(x.w).Flush()
	}
	x.turn.end()
	x.slot.Leave()
}
