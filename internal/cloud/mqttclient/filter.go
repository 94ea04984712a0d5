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

// writeTimeout bounds the writing of a packet.
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
	unanswered map[uint16]*Delivery // PUBACK, SUBACK or UNSUBACK has not come
}

func newFilter(stream, raw net.Conn, cfg Config) *filter {
	return &filter{
		Conn: stream, raw: raw, silence: cfg.Keepalive*3/2 + 10*time.Second, most: cfg.MaxPayload,
		pace:       rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.Burst),
		turn:       make(chan struct{}, 1),
		over:       make(chan struct{}),
		unanswered: make(map[uint16]*Delivery),
		in:         bufio.NewReaderSize(stream, 4<<10),
	}
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
		_ = f.SetReadDeadline(time.Now().Add(f.silence)) // fails only on a closed socket
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
	f.turn <- struct{}{} // who has it is done within writeTimeout
	defer func() { <-f.turn }()
	if !f.send(p) {
		return 0, errOver
	}
	return len(p), nil
}

// send writes a packet; the turn is held. False when the connection is over.
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
		d.Finish(why)
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
