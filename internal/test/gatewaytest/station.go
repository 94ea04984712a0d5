package gatewaytest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"gatehouse/internal/test/await"
	"gatehouse/internal/web/adminapi"
)

// Station is a station that speaks raw MQTT 3.1.1 (Version 4) or 5.0 (Version 5)
// over a connection that the test made, and does nothing by itself.
type Station struct {
	T        testing.TB
	Conn     net.Conn
	Login    adminapi.MQTTLogin
	Version  byte
	Persist  bool // ask for a session that outlives the connection
	in       *bufio.Reader
	packetID uint16
}

// The MQTT control packets that are used here, as the first byte of a packet.
const (
	connect = 0x10
	connack = 0x20
	publish = 0x32 // at QoS 1

	publishAgain = 0x3a // with DUP

	puback     = 0x40
	subscribe  = 0x82
	suback     = 0x90
	pingreq    = 0xc0
	disconnect = 0xe0
)

// Command is a command as a station gets it.
type Command struct {
	PacketID uint16 `json:"-"`
	QoS      byte   `json:"-"`
	Dup      bool   `json:"-"`
	ID       string `json:"id"`
	Command  string `json:"command"`
	LockID   string `json:"lockId"`
	TTL      int    `json:"ttl"`
	NotAfter int64  `json:"notAfter"` // in the station's own uptime, milliseconds; 0: none came
}

// Dial connects a station to the gateway and subscribes it to its commands.
func (g *Gateway) Dial(login adminapi.MQTTLogin) *Station {
	g.T.Helper()
	conn, err := net.Dial("tcp", g.MQTT)
	if err != nil {
		g.T.Fatal(err)
	}
	s := &Station{T: g.T, Conn: conn, Login: login, Version: 4}
	s.Open(1)
	return s
}

// Open sends CONNECT and SUBSCRIBE and takes their answers.
func (s *Station) Open(qos byte) {
	s.T.Helper()
	s.T.Cleanup(func() { _ = s.Conn.Close() })
	if err := s.TryOpen(qos); err != nil {
		s.T.Fatal(err)
	}
}

// TryOpen is Open for goroutines other than the test's.
func (s *Station) TryOpen(qos byte) error {
	if err := s.TryConnect(); err != nil {
		return err
	}
	return s.TrySubscribe(qos)
}

// TryConnect sends CONNECT and takes its answer.
func (s *Station) TryConnect() error {
	s.in = bufio.NewReader(s.Conn)
	if err := s.TrySend(connect, s.connectBody()); err != nil {
		return err
	}
	if first, body, err := s.read(); err != nil || first != connack || body[1] != 0 {
		return errors.Join(fmt.Errorf("CONNECT was answered %#x %x", first, body), err)
	}
	return nil
}

// TrySubscribe subscribes to the station's commands and takes the answer, passing over
// what comes before it.
func (s *Station) TrySubscribe(qos byte) error {
	s.packetID++
	body := binary.BigEndian.AppendUint16(nil, s.packetID)
	if s.Version == 5 {
		body = append(body, 0)
	}
	body = text(body, "stations/"+s.Login.ClientID[len("station-"):]+"/command")
	if err := s.TrySend(subscribe, append(body, qos)); err != nil {
		return err
	}
	first, body, err := s.read()
	for err == nil && first == puback { // of a report before it
		first, body, err = s.read()
	}
	if err != nil || first != suback || body[len(body)-1] != qos {
		return errors.Join(fmt.Errorf("SUBSCRIBE was answered %#x %x", first, body), err)
	}
	return nil
}

func (s *Station) connectBody() []byte {
	body := text(nil, "MQTT")
	flags := byte(0xc2) // user name, password, clean
	if s.Persist {
		flags &^= 2
	}
	body = append(body, s.Version, flags, 0, 120) // the longest keepalive that the gateway grants
	if s.Version == 5 && s.Persist {
		body = append(body, 5, 0x11, 0xff, 0xff, 0xff, 0xff) // session expiry: never
	} else if s.Version == 5 {
		body = append(body, 0)
	}
	body = text(body, s.Login.ClientID)
	body = text(body, s.Login.Username)
	return text(body, s.Login.Password)
}

func text(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s))) //nolint:gosec // tests use short texts
	return append(b, s...)
}

// Send writes one packet.
func (s *Station) Send(first byte, body []byte) {
	s.T.Helper()
	if err := s.TrySend(first, body); err != nil {
		s.T.Fatal(err)
	}
}

// TrySend is Send for goroutines other than the test's.
func (s *Station) TrySend(first byte, body []byte) error {
	packet := binary.AppendUvarint([]byte{first}, uint64(len(body))) // MQTT's length is an unsigned varint
	_, err := s.Conn.Write(append(packet, body...))
	return err
}

func (s *Station) read() (first byte, body []byte, err error) {
	if err := s.Conn.SetReadDeadline(await.Deadline()); err != nil {
		return 0, nil, err
	}
	if first, err = s.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	length, err := binary.ReadUvarint(s.in)
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, length)
	_, err = io.ReadFull(s.in, body)
	return first, body, err
}

// Command waits for the next command.
func (s *Station) Command() Command {
	s.T.Helper()
	c, err := s.NextCommand()
	if err != nil {
		s.T.Fatal(err)
	}
	return c
}

// NextCommand waits for the next command, or for the end of the connection. Other
// packets are passed over.
func (s *Station) NextCommand() (Command, error) {
	for {
		first, body, err := s.read()
		if err != nil {
			return Command{}, err
		}
		if first&0xf0 == 0x30 {
			return s.parseCommand(first, body)
		}
	}
}

func (s *Station) parseCommand(first byte, body []byte) (c Command, err error) {
	c.QoS, c.Dup = first>>1&3, first&8 != 0
	if len(body) < 2 || len(body) < 2+int(binary.BigEndian.Uint16(body)) {
		return c, errors.New("a PUBLISH without a topic")
	}
	topic := string(body[2 : 2+binary.BigEndian.Uint16(body)])
	if want := "stations/" + s.Login.ClientID[len("station-"):] + "/command"; topic != want {
		return c, fmt.Errorf("a PUBLISH to %s", topic)
	}
	body = body[2+len(topic):]
	if c.QoS > 0 {
		c.PacketID = binary.BigEndian.Uint16(body)
		body = body[2:]
	}
	if s.Version == 5 {
		length, n := binary.Uvarint(body)
		body = body[n+int(length):] //nolint:gosec // our own gateway's packet
	}
	err = json.Unmarshal(body, &c)
	return c, err
}

// Ack acknowledges a command.
func (s *Station) Ack(c Command) {
	s.T.Helper()
	if err := s.TryAck(c); err != nil {
		s.T.Fatal(err)
	}
}

// TryAck is Ack for goroutines other than the test's.
func (s *Station) TryAck(c Command) error {
	return s.TrySend(puback, binary.BigEndian.AppendUint16(nil, c.PacketID))
}

// Result publishes the station's own result of a command at QoS 1.
func (s *Station) Result(c Command, result, status string) {
	s.T.Helper()
	payload, err := json.Marshal(map[string]string{"id": c.ID, "result": result, "lockId": c.LockID, "status": status})
	if err != nil {
		s.T.Fatal(err)
	}
	s.Publish("result", payload)
}

// Publish publishes to one of the station's own topics at QoS 1.
func (s *Station) Publish(topic string, payload []byte) {
	s.T.Helper()
	if err := s.TryPublish(topic, payload); err != nil {
		s.T.Fatal(err)
	}
}

// PublishAgain is Publish of what a library has kept and sends again (DUP).
func (s *Station) PublishAgain(topic string, payload []byte) {
	s.T.Helper()
	if err := s.tryPublish(publishAgain, topic, payload); err != nil {
		s.T.Fatal(err)
	}
}

// TryPublish is Publish for goroutines other than the test's.
func (s *Station) TryPublish(topic string, payload []byte) error {
	return s.tryPublish(publish, topic, payload)
}

func (s *Station) tryPublish(first byte, topic string, payload []byte) error {
	s.packetID++
	body := text(nil, "stations/"+s.Login.ClientID[len("station-"):]+"/"+topic)
	body = binary.BigEndian.AppendUint16(body, s.packetID)
	if s.Version == 5 {
		body = append(body, 0)
	}
	return s.TrySend(first, append(body, payload...))
}

// Ping sends a PINGREQ and does not wait.
func (s *Station) Ping() error {
	_, err := s.Conn.Write([]byte{pingreq, 0})
	return err
}

// Close disconnects in order.
func (s *Station) Close() {
	_, _ = s.Conn.Write([]byte{disconnect, 0})
	_ = s.Conn.Close()
}
