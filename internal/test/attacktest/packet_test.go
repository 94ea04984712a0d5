package attacktest_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// Packets that break MQTT were acted upon, because the library decodes properties
// from the whole rest of a packet: an UNSUBSCRIBE with control characters, a PUBACK
// with a property twice, a CONNECT whose will has no flag. Others ended the
// connection without a word, or with one that names the wrong breach. Now each ends
// it, MQTT 5 with the reason code, and none of them is acted upon.
func TestAttack_packet(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	login := p.Enrol(1042).MQTT
	for name, test := range map[string]struct {
		version, header byte
		body            string
		code            byte // of DISCONNECT; 0: the connection just ends
	}{
		"UNSUBSCRIBE, control character": {5, 0xA2, "\x00\x01\x00\x00\x02a\x01", 0x81},
		"UNSUBSCRIBE, empty filter":      {4, 0xA2, "\x00\x01\x00\x00", 0},
		"SUBSCRIBE, reserved option":     {5, 0x82, "\x00\x01\x00\x00\x01a\x40", 0x81},
		"SUBSCRIBE, property cut":        {5, 0x82, "\x00\x01\x02\x26\x00\x00\x01a\x00", 0x81},
		"PUBACK, packet id 0":            {5, 0x40, "\x00\x00", 0x82},
		"PUBACK, unknown code":           {5, 0x40, "\x00\x01\xff", 0x82},
		"PUBACK, property twice":         {5, 0x40, "\x00\x01\x00\x08\x1f\x00\x01a\x1f\x00\x01a", 0x82},
		"PUBLISH, property twice":        {5, 0x30, "\x00\x14stations/1042/report\x04\x01\x01\x01\x01{}", 0x82},
		"PUBLISH, property cut":          {5, 0x30, "\x00\x14stations/1042/report\x01\x02{}", 0x81},
		"PUBLISH, QoS 2":                 {5, 0x34, "\x00\x14stations/1042/report\x00\x01\x00{}", 0x9B},
		"PUBLISH, retained":              {5, 0x31, "\x00\x14stations/1042/report\x00{}", 0x9A},
		"PUBLISH, topic alias":           {5, 0x30, "\x00\x14stations/1042/report\x03\x23\x00\x01{}", 0x94},
	} {
		s := &gatewaytest.Station{T: t, Conn: dial(t, p.MQTT), Login: login, Version: test.version}
		s.Open(1)
		s.Send(test.header, []byte(test.body))
		want := []byte{0xE0, 2, test.code, 0}
		if test.code == 0 {
			want = nil
		}
		if got := drain(t, s.Conn); !bytes.Equal(got, want) {
			t.Errorf("%s: answered %x, want %x", name, got, want)
		}
	}
	for name, test := range map[string]struct {
		version, flags    byte
		properties, extra string
		code              byte // of CONNACK; 0: the connection just ends
	}{
		"will QoS without a will": {4, 0xCA, "", "", 0},
		"excess bytes":            {4, 0xC2, "", "x", 0},
		"Receive Maximum 0":       {5, 0xC2, "\x21\x00\x00", "", 0x82},
		"Receive Maximum twice":   {5, 0xC2, "\x21\x00\x09\x21\x00\x09", "", 0x82},
		"Receive Maximum cut":     {5, 0xC2, "\x21", "", 0x81},
		"excess bytes, MQTT 5":    {5, 0xC2, "", "x", 0x81},
	} {
		conn := dial(t, p.MQTT)
		if _, err := conn.Write(hello(login, test.version, test.flags, test.properties, test.extra)); err != nil {
			t.Fatal(err)
		}
		want := []byte{0x20, 3, 0, test.code, 0}
		if test.code == 0 {
			want = nil
		}
		if got := drain(t, conn); !bytes.Equal(got, want) {
			t.Errorf("CONNECT, %s: answered %x, want %x", name, got, want)
		}
	}
}

// A station whose Maximum Packet Size had no room for a command was online, and each
// command to it failed without a word. It is refused with a code, and doctor names it.
func TestAttack_packetSize(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	login := p.Enrol(1042).MQTT
	refused := dial(t, p.MQTT)
	if _, err := refused.Write(hello(login, 5, 0xC2, "\x27\x00\x00\x00\x64", "")); err != nil {
		t.Fatal(err)
	}
	if got, want := drain(t, refused), []byte{0x20, 3, 0, 0x95, 0}; !bytes.Equal(got, want) {
		t.Errorf("answered %x, want %x", got, want)
	}
	const condition = "station-packet-size"
	if out, _ := p.Run("doctor"); !strings.Contains(out, condition) || !strings.Contains(out, "1042 (100 bytes)") {
		t.Errorf("doctor does not name it:\n%s", out)
	}
	if out, _ := p.Run("station", "show", "1042"); strings.Contains(out, "online") {
		t.Errorf("it is online:\n%s", out)
	}
	s := &gatewaytest.Station{T: t, Conn: dial(t, p.MQTT), Login: login, Version: 5}
	s.Open(1)
	if out, _ := p.Run("status"); strings.Contains(out, condition) {
		t.Errorf("the condition stands although the station has connected:\n%s", out)
	}
}

// hello is a CONNECT.
func hello(login adminapi.MQTTLogin, version, flags byte, properties, extra string) []byte {
	body := []byte{0, 4, 'M', 'Q', 'T', 'T', version, flags, 0, 60}
	if version == 5 {
		body = append(append(body, byte(len(properties))), properties...)
	}
	for _, field := range []string{login.ClientID, login.Username, login.Password} {
		body = binary.BigEndian.AppendUint16(body, uint16(len(field)))
		body = append(body, field...)
	}
	body = append(body, extra...)
	return append(binary.AppendUvarint([]byte{0x10}, uint64(len(body))), body...)
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// drain reads what comes before the end of a connection.
func drain(t *testing.T, conn net.Conn) []byte {
	t.Helper()
	_ = conn.SetReadDeadline(await.Deadline())
	got, err := io.ReadAll(conn)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Fatal("the connection does not end")
	}
	return got
}
