package kit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/board/admission"
)

// The deadline of an unlock counts from when the kernel received the request, however long
// the process stood still since, and whatever came later on the connection. The kernel does
// not keep that time, so each connection notes the earliest moment at which the bytes that
// it reads next can have come:
//
//   - A Read that does not fill its buffer leaves nothing in the kernel: what is read next
//     comes after it began.
//   - A Read that waits returns as soon as something comes, if the process runs. So what a
//     Read returns came no earlier than a beat during its wait, unless the process stood
//     still around that beat.
//
// A Read looks at the last beat only: it makes no system call and reads no clock.

const (
	// beatEvery is the time between two beats. In normal operation a receipt is earlier than
	// the true one by up to three of them.
	beatEvery = 25 * time.Millisecond
	// wholeWait is how many beats a Read has to see, to have waited from the first to the last.
	wholeWait = 2
	// maxDoubt bounds how long after a standstill a Read may have something to return that
	// came long before.
	maxDoubt = time.Second
	// staleReceipt is the age of a receipt from which on a connection is not used further.
	staleReceipt = time.Second
)

// mark is one beat.
type mark struct {
	number uint64
	at     time.Duration // when it was, by the clock of the beat
	sure   time.Duration // what a Read returns that waits by now came no earlier
}

// beat is the pulse of the process. Its marks may be read concurrently.
type beat struct {
	clock func() time.Duration // continues while the machine sleeps
	last  atomic.Pointer[mark]

	// For tick alone.
	recent [maxDoubt/beatEvery + 1]time.Duration // when the last beats were, by number
	doubt  time.Duration                         // how old a beat has to be, to be sure
}

func newBeat(clock func() time.Duration) *beat {
	b := &beat{clock: clock}
	now := clock()
	for i := range b.recent {
		b.recent[i] = now
	}
	b.last.Store(&mark{at: now, sure: now})
	return b
}

// tick adds a beat. When one comes late, the process stood still, and a Read may not have
// returned yet that had something to return long ago. So receipts stay before the standstill
// for half its length, up to half a second. In a process that is always late they are older
// than usual by the length of a beat.
func (b *beat) tick() {
	last := b.last.Load()
	m := &mark{number: last.number + 1, at: b.clock(), sure: last.sure}
	const kept = uint64(len(b.recent))
	b.recent[m.number%kept] = m.at
	b.doubt = max(b.doubt-beatEvery, 0)
	if late := m.at - last.at; late >= 2*beatEvery {
		b.doubt = max(b.doubt, min(late, maxDoubt))
	}
	for age := range kept { // the newest first
		if at := b.recent[(m.number+kept-age)%kept]; at <= m.at-b.doubt {
			m.sure = max(m.sure, at)
			break
		}
	}
	b.last.Store(m)
}

// Run keeps the time of the receipts until ctx ends, and returns nil. Doors are opened only
// for requests that arrive while it runs, or shortly before or after.
func (k *Kit) Run(ctx context.Context) error {
	timer := time.NewTimer(beatEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		runtime.Gosched() // after the readers that wait for a processor already
		k.beat.tick()
		timer.Reset(beatEvery)
	}
}

// wait is the begin of a Read or an Accept.
func (b *beat) wait() *mark { return b.last.Load() }

// earliest returns since, or if it is later the earliest arrival of what a Read or an Accept
// returns now that began at a mark.
func (b *beat) earliest(since time.Duration, began *mark) time.Duration {
	if m := b.last.Load(); m.number-began.number >= wholeWait {
		return max(since, m.sure)
	}
	return since
}

// reception is a listener whose connections note receipts. Accept is for one goroutine.
type reception struct {
	net.Listener
	beat  *beat
	since time.Duration // the earliest arrival of the connections that are not accepted

	// inherited is set until the queue was empty once: its connections may have come before
	// this process, at a socket that systemd holds over a restart.
	inherited bool
}

// Receive returns l with connections that note when requests arrive. The server of
// [Kit.NewServer] needs it; a [Service] has its own.
func (k *Kit) Receive(l net.Listener) net.Listener {
	return &reception{Listener: l, beat: k.beat, since: k.beat.wait().at, inherited: true}
}

// Accept implements [net.Listener].
func (l *reception) Accept() (net.Conn, error) {
	began := l.beat.wait()
	if !admission.Queued(l.Listener) {
		l.since, l.inherited = max(l.since, began.at), false
	}
	c, err := l.Listener.Accept()
	l.since = l.beat.earliest(l.since, began)
	if err != nil {
		return nil, err
	}
	r := &receiver{Conn: c, beat: l.beat, since: l.since}
	if l.inherited {
		r.since = min(r.since, l.beat.clock()-admission.Age(c))
	}
	return r, nil
}

// receiver is a connection as the kernel has it, below TLS. Read is for one goroutine at a
// time.
type receiver struct {
	net.Conn
	beat    *beat
	since   time.Duration // the earliest arrival of the bytes that Read has not returned
	receipt time.Duration // that of the bytes it returned last
	http2   bool          // set before the first request

	taken   atomic.Uint64 // bytes that Read has returned
	reading atomic.Bool   // Read waits for the client

	mu       sync.Mutex    // mu guards what follows
	pending  int           // requests whose header is read and whose handler has not begun
	request  time.Duration // the earliest arrival of the pending requests, or of the last one
	answered uint64        // over HTTP/1.1, the bytes that were taken before the last answer began
}

// NetConn returns the connection below.
func (r *receiver) NetConn() net.Conn { return r.Conn }

// Read implements [net.Conn].
func (r *receiver) Read(p []byte) (int, error) {
	began := r.beat.wait()
	r.reading.Store(true)
	n, err := r.Conn.Read(p)
	r.reading.Store(false)
	r.since = r.beat.earliest(r.since, began)
	if n > 0 {
		r.receipt = r.since
		r.taken.Add(uint64(n)) //nolint:gosec // not negative
		if n < len(p) {
			r.since = max(r.since, began.at)
		}
	}
	return n, err
}

// CloseWrite closes half of the connection, where it can be: see [Conn.CloseWrite].
func (r *receiver) CloseWrite() error {
	if half, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SetReadDeadline implements [net.Conn]. HTTP/2 lifts the deadline of the connection with each
// header that it has read, before it reads on and before it starts the handler.
func (r *receiver) SetReadDeadline(t time.Time) error {
	if r.http2 && t.IsZero() {
		r.headerRead()
	}
	return r.Conn.SetReadDeadline(t)
}

// noteHeader is a ConnState of net/http: HTTP/1.1 is active from each header that it has read
// on, before it reads on; HTTP/2 before the first and with some.
func noteHeader(c net.Conn, state http.ConnState) {
	r := receiverOf(c)
	if r == nil || r.http2 || state != http.StateActive {
		return
	}
	secured, ok := c.(*tls.Conn)
	if r.http2 = ok && secured.ConnectionState().NegotiatedProtocol == "h2"; !r.http2 {
		r.headerRead()
	}
}

// headerRead notes the receipt of a request whose header is read. Over HTTP/1.1, a request for
// which nothing was read since the last answer began was sent before that: it waited with the
// last one.
func (r *receiver) headerRead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == 0 && r.taken.Load() != r.answered {
		r.request = r.receipt
	}
	r.pending++
}

// begin returns the earliest arrival of a request whose handler begins. HTTP/2 starts
// handlers in any order, and late where all their places are taken. So that of the oldest
// request that waits holds for all.
func (r *receiver) begin() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = max(r.pending-1, 0)
	return r.request
}

// answer notes that an answer over HTTP/1.1 begins.
func (r *receiver) answer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = r.taken.Load()
}

// receiverOf returns the receiver that a connection of net/http is or wraps; nil if there is
// none.
func receiverOf(c net.Conn) *receiver {
	if l := connOf(c); l != nil {
		return l.in
	}
	r, _ := c.(*receiver)
	return r
}
