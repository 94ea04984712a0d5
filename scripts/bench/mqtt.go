package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// MQTT 3.1.1 control packet types (section 2.2.1), shifted into place.
const (
	mqttConnack  = 2 << 4
	mqttPublish  = 3 << 4
	mqttPuback   = 4 << 4
	mqttSuback   = 9 << 4
	mqttConnect  = 1 << 4
	mqttSub      = 8<<4 | 2 // the reserved bits of a SUBSCRIBE
	mqttPing     = 12 << 4
	mqttLeave    = 14 << 4
	mqttMaxBytes = 8 << 10 // of one packet; no command is larger
)

// mqttKeepAlive is what a station promises, in seconds.
const mqttKeepAlive = 120

// mqttConn is the least MQTT 3.1.1 client that a station can be, hand-written so
// that the stations cost little and the same under every server. Writes may
// come from several goroutines, reads from one.
type mqttConn struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte // of the packet read last
}

// mqttDial connects, logs in and subscribes at QoS 1; the deadline of all that
// is patience.
func mqttDial(address string, login stationLogin, topic string, patience time.Duration) (*mqttConn, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	m := &mqttConn{conn: conn, in: bufio.NewReaderSize(conn, 512)}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if err := m.enter(login, topic); err != nil {
		conn.Close()
		return nil, err
	}
	return m, conn.SetDeadline(time.Time{})
}

func (m *mqttConn) enter(login stationLogin, topic string) error {
	if _, err := m.conn.Write(connectPacket(login)); err != nil {
		return fmt.Errorf("sending CONNECT: %w", err)
	}
	if err := m.expect(mqttConnack, 2); err != nil {
		return fmt.Errorf("awaiting CONNACK: %w", err)
	}
	if code := m.body[1]; code != 0 {
		return fmt.Errorf("CONNECT refused with code %d", code)
	}
	if _, err := m.conn.Write(subscribePacket(topic)); err != nil {
		return fmt.Errorf("sending SUBSCRIBE: %w", err)
	}
	if err := m.expect(mqttSuback, 3); err != nil {
		return fmt.Errorf("awaiting SUBACK: %w", err)
	}
	if code := m.body[2]; code != 1 {
		return fmt.Errorf("SUBSCRIBE answered with code %#x", code)
	}
	return nil
}

// expect reads one packet, which must be of that kind and length.
func (m *mqttConn) expect(kind byte, length int) error {
	head, err := m.read()
	if err != nil {
		return err
	}
	if head&0xf0 != kind || len(m.body) != length {
		return fmt.Errorf("packet type %d with %d bytes", head>>4, len(m.body))
	}
	return nil
}

// read reads one packet; its body stays valid until the next read.
func (m *mqttConn) read() (head byte, err error) {
	if head, err = m.in.ReadByte(); err != nil {
		return 0, err
	}
	length, err := binary.ReadUvarint(m.in) // MQTT's remaining length is this encoding
	if err != nil {
		return 0, err
	}
	if length > mqttMaxBytes {
		return 0, errors.New("packet too large")
	}
	if uint64(cap(m.body)) < length {
		m.body = make([]byte, length)
	}
	m.body = m.body[:length]
	_, err = io.ReadFull(m.in, m.body)
	return head, err
}

// published splits the body of a PUBLISH; id is 0 at QoS 0.
func published(head byte, body []byte) (id uint16, payload []byte, err error) {
	short := errors.New("PUBLISH too short")
	if len(body) < 2 {
		return 0, nil, short
	}
	at := 2 + int(binary.BigEndian.Uint16(body))
	if head>>1&3 > 0 {
		if len(body) < at+2 {
			return 0, nil, short
		}
		id = binary.BigEndian.Uint16(body[at:])
		at += 2
	}
	if len(body) < at {
		return 0, nil, short
	}
	return id, body[at:], nil
}

func appendPuback(to []byte, id uint16) []byte {
	return append(to, mqttPuback, 2, byte(id>>8), byte(id))
}

// appendPublish adds a QoS 1 PUBLISH.
func appendPublish(to []byte, topic string, id uint16, payload []byte) []byte {
	to = append(to, mqttPublish|1<<1)
	to = binary.AppendUvarint(to, uint64(2+len(topic)+2+len(payload)))
	to = appendText(to, topic)
	to = binary.BigEndian.AppendUint16(to, id)
	return append(to, payload...)
}

func connectPacket(login stationLogin) []byte {
	const cleanSession, withPassword, withUser = 1 << 1, 1 << 6, 1 << 7
	body := appendText(nil, "MQTT")
	flags := byte(cleanSession)
	if login.Username != "" {
		flags |= withUser | withPassword
	}
	body = append(body, 4, flags)
	body = binary.BigEndian.AppendUint16(body, mqttKeepAlive)
	body = appendText(body, login.ClientID)
	if login.Username != "" {
		body = appendText(appendText(body, login.Username), login.Password)
	}
	return append(binary.AppendUvarint([]byte{mqttConnect}, uint64(len(body))), body...)
}

func subscribePacket(topic string) []byte {
	body := append(appendText([]byte{0, 1}, topic), 1)
	return append(binary.AppendUvarint([]byte{mqttSub}, uint64(len(body))), body...)
}

func appendText(to []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(text))), text...)
}

func commandTopic(station int) string { return "stations/" + strconv.Itoa(station) + "/command" }

func resultTopic(station int) string { return "stations/" + strconv.Itoa(station) + "/result" }

// fieldOf returns the value of a string field of a flat JSON object without
// parsing the rest; nil if it is not there.
func fieldOf(payload []byte, name string) []byte {
	_, rest, ok := bytes.Cut(payload, []byte(`"`+name+`"`))
	if !ok {
		return nil
	}
	_, rest, _ = bytes.Cut(rest, []byte{'"'})
	value, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return nil
	}
	return value
}
