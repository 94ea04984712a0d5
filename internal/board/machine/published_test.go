package machine_test

import (
	"bufio"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"gatehouse/internal/board/machine"
)

// avahi answers like avahi's simple protocol, as nss-mdns reads it.
func avahi(t *testing.T, answer string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if asked, _ := bufio.NewReader(conn).ReadString('\n'); asked == "RESOLVE-ADDRESS 192.0.2.7\n" {
				_, _ = conn.Write([]byte(answer))
			}
			_ = conn.Close()
		}
	}()
	return socket
}

// resolved answers every question for the names of an address.
func resolved(t *testing.T, names ...string) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			for _, name := range names {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(name)},
				})
			}
			packed, err := m.Pack()
			if err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func TestPublishedName(t *testing.T) {
	stub := []string{"gatehouse.", "Gatehouse2.local.", "localhost."}
	for _, c := range []struct {
		name, avahi string
		stub        []string
		want        string
	}{
		{"resolved alone", "", stub, "gatehouse2"},
		{"avahi", "+ 2 0 Gatehouse-2.local\n", stub, "gatehouse-2"},
		{"avahi fails", "-15 Timeout reached\n", stub, "gatehouse2"},
		{"avahi says too much", "+ 2 0 " + strings.Repeat("a", 600) + ".local\n", stub, "gatehouse2"},
		{"avahi says nonsense", "+ 2 0 a.b.local\n", stub, "gatehouse2"},
		{"neither", "+ 2 0 x\x1b.local\n", []string{"gatehouse.", "localhost."}, ""},
	} {
		socket := filepath.Join(t.TempDir(), "none")
		if c.avahi != "" {
			socket = avahi(t, c.avahi)
		}
		addresses := []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("192.0.2.7")}
		if got := machine.PublishedBy(t.Context(), socket, resolved(t, c.stub...), addresses); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
