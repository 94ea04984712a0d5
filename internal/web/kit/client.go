package kit

import (
	"context"
	"time"

	"gatehouse/internal/board/admission"
)

const (
	// provenAge is the age up to which a connection proves the age of its requests: none is
	// older than the connection's handshake.
	provenAge = 2 * time.Second
	// readGrace is how long the end of a client may take from the kernel to its request.
	readGrace = 50 * time.Millisecond
	// readLook is the time between two looks at it.
	readLook = time.Millisecond
)

// Heard returns when the gateway has heard from the client's kernel since the request, when
// ctx ends, or at the deadline. After an outage that kernel sends the request alone, and the
// end of its connection or of its stream, which the app closed long before, only when the
// request is acknowledged. So Heard waits for one round trip from Exchange.opening on, and
// until all that has arrived by then is read. It returns at once for a client on this
// machine, and on a connection that is too young to bring an old request. Other requests and
// handshakes wait no longer: what is left of the unlock is little work, and the station may
// take seconds.
func (x *Exchange) Heard(ctx context.Context, deadline time.Time) {
	x.calm()
	if x.heard.IsZero() {
		return
	}
	left := time.Until(deadline)
	wait := min(time.Until(x.heard), left)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for end := min(wait+readGrace, left); ; wait += readLook {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if wait >= end || x.conn.isRead() {
			return
		}
		timer.Reset(readLook)
	}
}

// isRead reports whether all that has arrived on the connection is read and dealt with. It
// is never so after a client has pipelined a request: net/http reads no further.
func (c *Conn) isRead() bool {
	arrived, known := admission.Received(c)
	return !known || c.in.taken.Load() == arrived && c.in.reading.Load()
}

// Waiting reports whether the client still waits for the answer, as far as is known here.
// The request's context ends when net/http has read the client's FIN, which takes a
// moment; the kernel knows it at once.
func (x *Exchange) Waiting() bool {
	return x.Req.Context().Err() == nil && !admission.HungUp(x.conn)
}
