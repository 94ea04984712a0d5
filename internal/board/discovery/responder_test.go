package discovery_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"gatehouse/internal/board/discovery"
	"gatehouse/internal/test/await"
)

var (
	services = []discovery.Service{
		{Type: "_gatehouse._tcp", Port: 8443, Text: "api=1"},
		{Type: "_https._tcp", Port: 8443, Text: "path=/"},
		{Type: "_secure-mqtt._tcp", Port: 8883},
	}
	here  = netip.MustParsePrefix("192.168.10.2/24")
	plain = &net.UDPAddr{IP: net.IPv4(192, 168, 10, 7), Port: 40000}
	full  = &net.UDPAddr{IP: net.IPv4(192, 168, 10, 7), Port: 5353}
)

// query returns a packet that asks for a type of a name.
func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	packet, err := (&dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET},
	}}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

// unpack reads a response.
func unpack(t testing.TB, packet []byte) (m dnsmessage.Message) {
	t.Helper()
	if err := m.Unpack(packet); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLink_Respond(t *testing.T) {
	for _, c := range []struct {
		name string
		kind dnsmessage.Type
		want []dnsmessage.ResourceBody // nil: no response
	}{
		{"_gatehouse._tcp.local.", dnsmessage.TypePTR, []dnsmessage.ResourceBody{
			&dnsmessage.PTRResource{PTR: dnsmessage.MustNewName("gate._gatehouse._tcp.local.")},
		}},
		{"Gate._HTTPS._tcp.local.", dnsmessage.TypeSRV, []dnsmessage.ResourceBody{
			&dnsmessage.SRVResource{Port: 8443, Target: dnsmessage.MustNewName("gate.local.")},
		}},
		{"gate._gatehouse._tcp.local.", dnsmessage.TypeTXT, []dnsmessage.ResourceBody{&dnsmessage.TXTResource{TXT: []string{"api=1"}}}},
		{"gate._secure-mqtt._tcp.local.", dnsmessage.TypeTXT, []dnsmessage.ResourceBody{&dnsmessage.TXTResource{TXT: []string{""}}}},
		{"gate.local.", dnsmessage.TypeA, []dnsmessage.ResourceBody{&dnsmessage.AResource{A: [4]byte{192, 168, 10, 2}}}},
		{"_services._dns-sd._udp.local.", dnsmessage.TypePTR, []dnsmessage.ResourceBody{
			&dnsmessage.PTRResource{PTR: dnsmessage.MustNewName("_gatehouse._tcp.local.")},
			&dnsmessage.PTRResource{PTR: dnsmessage.MustNewName("_https._tcp.local.")},
			&dnsmessage.PTRResource{PTR: dnsmessage.MustNewName("_secure-mqtt._tcp.local.")},
		}},
		{"other.local.", dnsmessage.TypeA, nil},
		{"gate.local.", dnsmessage.TypeAAAA, nil},
		{"gate.local.", dnsmessage.TypeALL, nil}, // a probe: another machine may have the name
	} {
		response, _ := discovery.NewLink("gate", services, here).Respond(query(t, c.name, c.kind), full)
		if c.want == nil {
			if response != nil {
				t.Errorf("%s %s: a response", c.name, c.kind)
			}
			continue
		}
		reply := unpack(t, response)
		got := make([]dnsmessage.ResourceBody, 0, len(c.want))
		for _, answer := range reply.Answers {
			got = append(got, answer.Body)
		}
		if !slices.EqualFunc(got, c.want, func(a, b dnsmessage.ResourceBody) bool { return a.GoString() == b.GoString() }) {
			t.Errorf("%s %s: %v, want %v", c.name, c.kind, got, c.want)
		}
		if records := len(reply.Answers) + len(reply.Additionals); records != 13 || !reply.Response || reply.ID != 0 || len(reply.Questions) != 0 {
			t.Errorf("%s %s: %d records in %+v", c.name, c.kind, records, reply.Header)
		}
	}
}

// A client that does not take part in multicast DNS gets the answer for itself, under the
// number of its question.
func TestLink_Respond_plainClient(t *testing.T) {
	response, to := discovery.NewLink("gate", services, here).Respond(query(t, "gate.local.", dnsmessage.TypeA), plain)
	reply := unpack(t, response)
	if to != plain || reply.ID != 7 || len(reply.Questions) != 1 || reply.Answers[0].Header.TTL > 10 {
		t.Errorf("to %v: %+v", to, reply)
	}
}

func TestLink_Respond_oneMulticastASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, packet, sent := discovery.NewLink("gate", services, here), query(t, "gate.local.", dnsmessage.TypeA), 0
		for range 1000 { // in two seconds
			if response, to := l.Respond(packet, full); response != nil {
				if sent++; to.String() != "224.0.0.251:5353" {
					t.Fatalf("to %v", to)
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
		if sent != 2 {
			t.Errorf("%d answers", sent)
		}
	})
}

func TestLink_Respond_notAsked(t *testing.T) {
	asked := query(t, "gate.local.", dnsmessage.TypeA)
	response, other := slices.Clone(asked), slices.Clone(asked)
	response[2] |= 1 << 7
	other[2] |= 2 << 3 // operation code
	for name, c := range map[string]struct {
		packet []byte
		from   net.IP
	}{
		"another network":   {asked, net.IPv4(192, 168, 11, 7)},
		"a response":        {response, plain.IP},
		"another operation": {other, plain.IP},
		"cut off":           {asked[:len(asked)-1], plain.IP},
		"empty":             {nil, plain.IP},
	} {
		for _, port := range []int{plain.Port, full.Port} {
			sender := &net.UDPAddr{IP: c.from, Port: port}
			if sent, _ := discovery.NewLink("gate", services, here).Respond(c.packet, sender); sent != nil {
				t.Errorf("%s: a response", name)
			}
		}
	}
}

// A name that does not fit into a record is not answered for.
func TestLink_Respond_longName(t *testing.T) {
	for _, length := range []int{64, 300} {
		name := string(make([]byte, length))
		if sent, _ := discovery.NewLink(name, services, here).Respond(query(t, "_https._tcp.local.", dnsmessage.TypePTR), plain); sent != nil {
			t.Errorf("%d characters: a response", length)
		}
	}
}

func FuzzLink_Respond(f *testing.F) {
	f.Add(query(f, "gate.local.", dnsmessage.TypeA))
	f.Add(query(f, "_https._tcp.local.", dnsmessage.TypePTR))
	f.Add([]byte("\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x0c\x00\x01\x04gate\x05local\x00\x00\x01\x80\x01"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if sent, _ := discovery.NewLink("gate", services, here).Respond(packet, plain); sent != nil && len(unpack(t, sent).Answers) == 0 {
			t.Error("a response without an answer")
		}
	})
}

// loopback returns the address of a responder that answers on this machine until ctx ends,
// and what is closed then.
func loopback(ctx context.Context, t *testing.T) (address net.Addr, ended chan struct{}) {
	t.Helper()
	conn, err := discovery.Listen(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	address = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: conn.LocalAddr().(*net.UDPAddr).Port}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		discovery.ServeOn(ctx, conn, lo.Index, discovery.NewLink("gate", services, netip.MustParsePrefix("127.0.0.1/8")))
	}()
	return address, ended
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := loopback(ctx, t)
	client, err := new(net.Dialer).DialContext(ctx, "udp4", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_ = client.SetDeadline(await.Deadline())
	buffer := make([]byte, 1500)
	for _, packet := range [][]byte{[]byte("nonsense"), query(t, "_gatehouse._tcp.local.", dnsmessage.TypePTR)} {
		if _, err := client.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	n, err := client.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	if reply := unpack(t, buffer[:n]); len(reply.Answers) != 1 || len(reply.Additionals) != 12 {
		t.Errorf("%+v", reply)
	}
	cancel()
	<-ended
}

// However many queries arrive, the work of a second is bounded: beyond 50 at once there
// are 50 in a second.
func TestServe_flood(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	address, ended := loopback(ctx, t)
	client, err := new(net.Dialer).DialContext(ctx, "udp4", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_ = client.SetDeadline(await.Deadline())
	packet := query(t, "gate.local.", dnsmessage.TypeA)
	for range 200 {
		if _, err := client.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	for range 75 {
		if _, err := client.Read(make([]byte, 1500)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 490*time.Millisecond { // real time: a slow machine only answers later
		t.Errorf("75 answers after %v", took)
	}
	cancel()
	<-ended
}

// The port is never taken from another program, nor kept from one that shares it.
func TestListen(t *testing.T) {
	first, err := discovery.Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	port := first.LocalAddr().(*net.UDPAddr).Port
	if second, err := discovery.Listen(t.Context(), port); err == nil {
		_ = second.Close()
		t.Error("a second responder that does not share")
	}
	shares := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}}
	third, err := shares.ListenPacket(t.Context(), "udp4", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatalf("a responder that shares: %v", err)
	}
	_ = third.Close()
}
