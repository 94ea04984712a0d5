package broker_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

// client is the least of an MQTT client, for both versions, that says exactly the
// bytes that a test wants.
type client struct {
	t       testing.TB
	conn    net.Conn
	in      *bufio.Reader
	version byte
}

func newClient(t testing.TB, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(await.Deadline())
	return &client{t: t, conn: conn, in: bufio.NewReader(conn), version: 4}
}

func (c *client) close() { c.conn.Close() }

// packet puts a header before a body.
func packet(header byte, body ...[]byte) []byte {
	whole := join(body...)
	return append(binary.AppendUvarint([]byte{header}, uint64(len(whole))), whole...)
}

func join(parts ...[]byte) []byte {
	var whole []byte
	for _, p := range parts {
		whole = append(whole, p...)
	}
	return whole
}

// text encodes a string or binary field.
func text[T string | []byte](s T) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}

func u16(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }

// properties is the block of MQTT 5 properties; nothing in 3.1.1.
func properties(version byte, body ...[]byte) []byte {
	if version != 5 {
		return nil
	}
	whole := join(body...)
	return append(binary.AppendUvarint(nil, uint64(len(whole))), whole...)
}

// hello is a CONNECT that tests may bend.
type hello struct {
	version    byte
	clientID   string
	user       string
	secret     string
	flags      byte // 0: clean, user name and password
	keepalive  uint16
	properties []byte
	will       []byte // encoded will properties, topic and payload
}

func helloOf(id site.StationID, version byte) hello {
	return hello{
		version: version, clientID: id.ClientID(), user: id.ClientID(), secret: secretOf(id),
		flags: 0xC2, keepalive: 60,
	}
}

func (h hello) bytes() []byte {
	body := [][]byte{text("MQTT"), {h.version, h.flags}, u16(h.keepalive), properties(h.version, h.properties), text(h.clientID), h.will}
	if h.flags&0x80 != 0 {
		body = append(body, text(h.user))
	}
	if h.flags&0x40 != 0 {
		body = append(body, text(h.secret))
	}
	return packet(0x10, body...)
}

// send writes bytes as they are.
func (c *client) send(b ...[]byte) {
	c.t.Helper()
	if _, err := c.conn.Write(join(b...)); err != nil {
		c.t.Fatalf("writing: %v", err)
	}
}

// try writes bytes where the broker may have hung up already.
func (c *client) try(b ...[]byte) { _, _ = c.conn.Write(join(b...)) }

// read returns the next packet.
func (c *client) read() (header byte, body []byte, err error) {
	header, err = c.in.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	size, err := binary.ReadUvarint(c.in)
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, size)
	_, err = io.ReadFull(c.in, body)
	return header, body, err
}

// expect reads a packet with that header.
func (c *client) expect(header byte) []byte {
	c.t.Helper()
	got, body, err := c.read()
	if err != nil || got != header {
		c.t.Fatalf("packet %#x %x, %v; want %#x", got, body, err, header)
	}
	return body
}

// expectEnd reads to the end of the connection and returns what came before it.
func (c *client) expectEnd() (packets [][]byte) {
	c.t.Helper()
	for {
		header, body, err := c.read()
		if isEnd(err) {
			return packets
		}
		if err != nil {
			c.t.Fatalf("the broker does not end the connection: %v", err)
		}
		packets = append(packets, append([]byte{header}, body...))
	}
}

// expectReset reads to the end of the connection, which must be a reset.
func (c *client) expectReset() {
	c.t.Helper()
	if _, err := io.Copy(io.Discard, c.in); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("the connection ends with %v; want a reset", err)
	}
}

// connect connects and reads the CONNACK, whose body it returns.
func (c *client) connect(id site.StationID, version byte) []byte {
	c.t.Helper()
	return c.greet(helloOf(id, version))
}

func (c *client) greet(h hello) []byte {
	c.t.Helper()
	c.version = h.version
	c.send(h.bytes())
	body := c.expect(0x20)
	if body[1] != 0 {
		c.t.Fatalf("CONNACK %x", body)
	}
	return body
}

// subscription is a SUBSCRIBE to one topic.
func subscription(version byte, id uint16, topic string, options byte) []byte {
	return packet(0x82, u16(id), properties(version), text(topic), []byte{options})
}

func commandTopic(id site.StationID) string { return "stations/" + id.String() + "/command" }

// subscribe subscribes to the station's commands.
func (c *client) subscribe(id site.StationID, qos byte) {
	c.t.Helper()
	c.send(subscription(c.version, 1, commandTopic(id), qos))
	body := c.expect(0x90)
	if body[len(body)-1] != min(qos, 1) {
		c.t.Fatalf("SUBACK %x", body)
	}
}

// publication is a PUBLISH; flags are those of the header's lower half.
func publication(version, flags byte, topic string, id uint16, payload string) []byte {
	parts := [][]byte{text(topic)}
	if flags&0x06 != 0 {
		parts = append(parts, u16(id))
	}
	return packet(0x30|flags, append(parts, properties(version), []byte(payload))...)
}

// ping sends a PINGREQ and waits for the answer.
func (c *client) ping() {
	c.t.Helper()
	c.send([]byte{0xC0, 0})
	c.expect(0xD0)
}

// survives pings, and reports whether an answer comes rather than the end. An answer
// says that the handler has been told of the connection.
func (c *client) survives() bool {
	c.t.Helper()
	c.try([]byte{0xC0, 0})
	for {
		header, _, err := c.read()
		switch {
		case isEnd(err):
			return false
		case err != nil:
			c.t.Fatalf("neither an answer to the ping nor the end: %v", err)
		case header == 0xD0:
			return true
		}
	}
}

// command is a PUBLISH as a station got it.
type command struct {
	topic   string
	id      uint16
	payload string
}

// readCommand reads a command at that QoS.
func (c *client) readCommand(qos byte) command {
	c.t.Helper()
	body := c.expect(0x30 | qos<<1)
	size := int(binary.BigEndian.Uint16(body))
	cmd := command{topic: string(body[2 : 2+size])}
	body = body[2+size:]
	if qos > 0 {
		cmd.id, body = binary.BigEndian.Uint16(body), body[2:]
	}
	if c.version == 5 {
		if body[0] != 0 {
			c.t.Fatalf("the command has properties: %x", body)
		}
		body = body[1:]
	}
	cmd.payload = string(body)
	return cmd
}

// message is a [stationlink.Message] of a function.
type message func(b []byte) ([]byte, time.Duration, error)

func (m message) Payload(b []byte) ([]byte, time.Duration, error) { return m(b) }

// says is a command's payload that is known before.
func says[T string | []byte](payload T) message { return saysFor(payload, time.Minute) }

// saysFor is says with the patience of the kernel.
func saysFor[T string | []byte](payload T, patience time.Duration) message {
	return func(b []byte) ([]byte, time.Duration, error) { return append(b, payload...), patience, nil }
}

// exchangeCommand lets a command go down and its PUBACK up.
func (c *client) exchangeCommand(conn *broker.Conn, id site.StationID) {
	c.t.Helper()
	if err := conn.Send(77, 1, says("open"), await.Deadline()); err != nil {
		c.t.Fatal(err)
	}
	want := command{topic: commandTopic(id), id: 77, payload: "open"}
	if got := c.readCommand(1); got != want {
		c.t.Fatalf("command %+v, want %+v", got, want)
	}
	c.send(packet(0x40, u16(77)))
}
