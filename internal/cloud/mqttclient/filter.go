package mqttclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

// writeTimeout bounds the turn of a packet to be written, and its writing.
const writeTimeout = 10 * time.Second

// ErrHungUp is why a connection ended that the broker closed: among others because
// another client has connected under the same ClientID ([MQTT-3.1.4-2]).
var ErrHungUp = errors.New("the broker closed the connection")

// Why else a connection ends by itself.
var (
	errSilent     = errors.New("the broker says nothing any more")
	errNotReading = errors.New("the broker does not read what is sent to it")
	errPaho       = errors.New("the MQTT client gave the connection up")
)

// errOver is what paho gets from a connection that is over, whatever the reason. It must
// not be [net.ErrClosed], in whose text paho sees a sign to do nothing.
var errOver = errors.New("the connection is over")

// filter stands between paho and the socket. Each Write of paho's is one packet, and
// each packet of the broker's is read whole, judged, and only then passed to paho (see
// packet.go). So no packet reaches paho that makes it panic, nor an answer to something
// that it does not yet know to be written.
type filter struct {
	net.Conn               // TLS, or raw; for addresses
	raw      net.Conn      // below TLS, where closing never waits
	silence  time.Duration // how long the broker may say nothing: it answers at least the pings
	most     int           // bytes of a payload
	pace     *rate.Limiter
	places   chan struct{} // holds a token for each message that paho or Receive has

	// The reading goroutine's own.
	in    *bufio.Reader
	begun bool   // CONNACK has come
	body  []byte // memory for the rest of one packet
	ready []byte // what of it paho has not read yet

	turn chan struct{} // holds a token while a packet is written
	over chan struct{} // closed at the end

	mu         sync.Mutex // mu guards what follows
	err        error      // of the end
	receiving  sync.WaitGroup
	lastID     uint16
	unanswered map[uint16]*Delivery // PUBACK or SUBACK has not come
}

func newFilter(stream, raw net.Conn, cfg Config) *filter {
	f := &filter{
		Conn: stream, raw: raw, silence: cfg.KeepAlive*3/2 + 10*time.Second, most: cfg.MaxPayload,
		pace:       rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.Burst),
		places:     make(chan struct{}, MaxReceiving),
		turn:       make(chan struct{}, 1),
		over:       make(chan struct{}),
		unanswered: make(map[uint16]*Delivery),
	}
	f.in = bufio.NewReaderSize(source{f}, 4<<10)
	return f
}

// source reads from the socket: each read has to bring something in time.
type source struct{ f *filter }

func (s source) Read(p []byte) (int, error) {
	_ = s.f.Conn.SetReadDeadline(time.Now().Add(s.f.silence)) // fails only on a closed socket
	return s.f.Conn.Read(p)
}

// Read returns paho what the broker sent, as far as paho may see it. A panic is the end of
// the connection and not of the process.
func (f *filter) Read(p []byte) (n int, err error) {
	defer func() {
		if r := recover(); r != nil {
			f.finish(fmt.Errorf("a mistake in the gateway ended the connection to the broker: %v", r))
			err = errOver
		}
	}()
	for len(f.ready) == 0 && f.cause() == nil {
		err := f.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = ErrHungUp
		case errors.Is(err, syscall.ECONNRESET):
			err = fmt.Errorf("%w: %w", ErrHungUp, err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = errSilent
		}
		if err != nil {
			f.finish(err)
		}
	}
	if f.cause() != nil { // also when something is left in memory
		return 0, errOver
	}
	n = copy(p, f.ready)
	f.ready = f.ready[n:]
	return n, nil
}

// Write sends a packet of paho's.
func (f *filter) Write(p []byte) (n int, err error) {
	if !f.lock() {
		return 0, errOver
	}
	defer f.unlock()
	if !f.send(p) {
		return 0, errOver
	}
	return len(p), nil
}

// lock waits for the turn to write; false when the connection is over.
func (f *filter) lock() bool {
	select {
	case f.turn <- struct{}{}:
		return true
	case <-f.over:
	case <-time.After(writeTimeout):
		f.finish(errNotReading)
	}
	return false
}

func (f *filter) unlock() { <-f.turn }

// send writes a packet; the lock is held. False when the connection is over.
func (f *filter) send(p []byte) bool {
	if f.cause() != nil {
		return false
	}
	_ = f.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only on a closed socket
	_, err := f.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errNotReading
	}
	if err != nil {
		f.finish(err)
	}
	return err == nil
}

// finish ends the connection for a reason, unless it is over: every Delivery is done then,
// and nothing more comes through. It never waits.
func (f *filter) finish(why error) {
	f.mu.Lock()
	if f.err != nil {
		f.mu.Unlock()
		return
	}
	f.err = why
	open := f.unanswered
	f.unanswered = nil
	f.mu.Unlock()
	close(f.over)
	for _, d := range open {
		d.finish(why)
	}
	_ = f.raw.Close() // what fails is over as well
}

// cause returns why the connection is over; nil before.
func (f *filter) cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// begin reports whether a message may still go to Receive; if so, receiving.Done must
// follow.
func (f *filter) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.receiving.Add(1)
	}
	return f.err == nil
}

// Close is paho's, when it has no use for the connection.
func (f *filter) Close() error {
	f.finish(errPaho)
	return nil
}

// SetDeadline is paho's and does nothing: the filter has deadlines of its own.
func (*filter) SetDeadline(time.Time) error { return nil }
