package mqttclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
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
)

// errOver ends the reading of a connection that is over already.
var errOver = errors.New("the connection is over")

// Conn is one connection to a broker. Its methods are safe for concurrent use, also
// after its end.
type Conn struct {
	stream  net.Conn // TLS, or raw
	raw     net.Conn // below TLS, where closing never waits
	receive func(Message)
	silence time.Duration // how long the broker may say nothing: it answers at least the pings
	most    int           // bytes of a payload
	pace    *rate.Limiter

	// The reading goroutine's own.
	in    *bufio.Reader
	begun bool   // CONNACK has come
	body  []byte // memory for the rest of one packet

	turn    chan struct{}  // holds a token while a packet is written
	over    chan struct{}  // closed at the end
	running sync.WaitGroup // the goroutines that read and ping

	mu         sync.Mutex // mu guards what follows
	err        error      // of the end
	lastID     uint16
	unanswered map[uint16]*Delivery // PUBACK or SUBACK has not come; CONNACK for 0
}

func newConn(stream, raw net.Conn, cfg Config) *Conn {
	return &Conn{
		stream: stream, raw: raw, receive: cfg.Receive, silence: cfg.KeepAlive*3/2 + 10*time.Second, most: cfg.MaxPayload,
		pace: rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.Burst), in: bufio.NewReaderSize(stream, 4<<10),
		turn: make(chan struct{}, 1), over: make(chan struct{}), unanswered: make(map[uint16]*Delivery),
	}
}

// read takes one packet of the broker's after the other, each of which has to come in time,
// until the connection is over. A panic is the end of the connection and not of the process.
func (c *Conn) read() {
	defer func() {
		if r := recover(); r != nil {
			c.finish(fmt.Errorf("a mistake in the gateway ended the connection to the broker: %v", r))
		}
	}()
	for c.Err() == nil {
		_ = c.stream.SetReadDeadline(time.Now().Add(c.silence)) // fails only on a closed socket
		err := c.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = ErrHungUp
		case errors.Is(err, syscall.ECONNRESET):
			err = fmt.Errorf("%w: %w", ErrHungUp, err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = errSilent
		}
		if err != nil {
			c.finish(err)
		}
	}
}

// ping keeps the connection alive.
func (c *Conn) ping(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.over:
			return
		case <-ticker.C:
			c.write([]byte{packets.Pingreq << 4, 0})
		}
	}
}

// encode packs a packet.
func encode(p packets.ControlPacket) []byte {
	var whole bytes.Buffer
	_ = p.Write(&whole) // to memory
	return whole.Bytes()
}

// write waits for the turn of a packet and writes it.
func (c *Conn) write(packet []byte) {
	if c.lock() {
		defer c.unlock()
		c.send(packet)
	}
}

// lock waits for the turn to write; false when the connection is over.
func (c *Conn) lock() bool {
	select {
	case c.turn <- struct{}{}:
		return true
	case <-c.over:
	case <-time.After(writeTimeout):
		c.finish(errNotReading)
	}
	return false
}

func (c *Conn) unlock() { <-c.turn }

// send writes a packet; the lock is held.
func (c *Conn) send(packet []byte) {
	_ = c.stream.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only on a closed socket
	_, err := c.stream.Write(packet)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errNotReading
	}
	if err != nil {
		c.finish(err)
	}
}

// finish ends the connection for a reason, unless it is over: every Delivery is done then,
// and nothing more is sent. It never waits.
func (c *Conn) finish(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	open := c.unanswered
	c.unanswered = nil
	c.mu.Unlock()
	close(c.over)
	for _, d := range open {
		d.finish(why)
	}
	_ = c.raw.Close() // what fails is over as well
}
