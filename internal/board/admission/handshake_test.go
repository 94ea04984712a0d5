package admission_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/test/await"
)

// authority makes the configurations of both sides.
func authority(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"gateway"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		&tls.Config{RootCAs: roots, ServerName: "gateway", MinVersion: tls.VersionTLS12}
}

// hall is a gate with handshakes at it.
type hall struct {
	t              *testing.T
	gate           *admission.Handshakes
	server, client *tls.Config
	hello          time.Duration // time to the first byte

	mu    sync.Mutex // mu guards what follows
	turns []string   // the names of the handshakes that had their turn, in order
	began bool       // one had its turn
	work  sync.WaitGroup
}

// patience bounds a handshake from its turn on.
const patience = 5 * time.Second

// newHall returns a hall for a bubble.
func newHall(t *testing.T, turns int) *hall { return newHallOf(t, turns, time.Second, patience) }

// newRealHall returns a hall with times that no slow machine reaches.
func newRealHall(t *testing.T, turns int) *hall { return newHallOf(t, turns, time.Hour, time.Hour) }

func newHallOf(t *testing.T, turns int, hello, patience time.Duration) *hall {
	h := &hall{t: t, gate: admission.NewHandshakes(turns, patience), hello: hello}
	server, client := authority(t)
	h.server, h.client = h.gate.Config(server), client
	gated := h.server.GetConfigForClient
	h.server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		same, err := gated(hello)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.turns = append(h.turns, hello.SupportedProtos...)
			h.began = true
		}
		return same, err
	}
	return h
}

// guest is the server's side of a connection.
type guest struct {
	leave func() // ends it at the server
	ended chan error
}

// arrive has the server begin a handshake.
func (h *hall) arrive(far net.Conn) *guest {
	conn := h.gate.Conn(far)
	g := &guest{ended: make(chan error, 1)}
	g.leave = func() { _ = conn.Close() }
	_ = far.SetDeadline(time.Now().Add(h.hello))
	h.work.Go(func() {
		err := tls.Server(conn, h.server).HandshakeContext(context.Background())
		conn.Done()
		_ = conn.Close()
		g.ended <- err
	})
	return g
}

// greet has a client come over a pipe and do its side of the handshake.
func (h *hall) greet(name string) *guest { return h.greetFrom(name, "192.0.2.1") }

// greetFrom is greet for a client at an address.
func (h *hall) greetFrom(name, address string) *guest {
	near, far := net.Pipe()
	far = &remote{far, &net.TCPAddr{IP: net.ParseIP(address)}}
	h.work.Go(func() {
		named := h.client.Clone()
		named.NextProtos = []string{name}
		session := tls.Client(near, named)
		if session.HandshakeContext(context.Background()) == nil {
			_, _ = session.Read(make([]byte, 1)) // the session ticket
		}
		_ = near.Close()
	})
	return h.arrive(far)
}

// remote is a connection from an address.
type remote struct {
	net.Conn
	address net.Addr
}

func (r *remote) RemoteAddr() net.Addr { return r.address }

// occupy has a client come that takes a turn and no answer, until it is let go.
func (h *hall) occupy() (g *guest, let func()) {
	near, far := net.Pipe()
	gone := make(chan struct{})
	h.work.Go(func() {
		_ = tls.Client(&deaf{near, gone}, h.client).HandshakeContext(context.Background())
		_ = near.Close()
	})
	return h.arrive(far), func() { close(gone) }
}

// deaf is a connection of which nothing is read.
type deaf struct {
	net.Conn
	gone chan struct{}
}

func (d *deaf) Read([]byte) (int, error) {
	<-d.gone
	return 0, net.ErrClosed
}

// While a turn is taken, handshakes wait without a deadline; then the newest comes
// first, and what was evicted is passed over. A turn has its bound.
func TestHandshakes_newestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 1)
		start := time.Now()
		occupant, let := h.occupy()
		synctest.Wait()
		guests := make(map[string]*guest)
		for _, name := range []string{"oldest", "older", "newer", "newest"} {
			guests[name] = h.greet(name)
			synctest.Wait()
		}
		if n := h.gate.Waiting(); n != 4 {
			t.Fatalf("%d wait", n)
		}
		guests["newer"].leave() // evicted, for example
		if err := <-guests["newer"].ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if n := h.gate.Waiting(); n != 3 {
			t.Errorf("%d wait", n)
		}
		if err := <-occupant.ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != patience {
			t.Errorf("the turn ended after %v: %v", time.Since(start), err)
		}
		let()
		h.work.Wait()
		if want := []string{"newest", "older", "oldest"}; !slices.Equal(h.turns, want) {
			t.Errorf("turns %v, want %v", h.turns, want)
		}
	})
}

// An address that sends one ClientHello after the other, always the newest, keeps no
// other address waiting for more than one of them; nor does a client that has a whole IPv6
// network.
func TestHandshakes_fairAmongAddresses(t *testing.T) {
	const one, other, inNetwork = "192.0.2.1", "192.0.2.2", "2001:db8::"
	for name, c := range map[string]struct {
		arrive [][2]string // name and address
		want   []string
	}{
		"one address": {
			arrive: [][2]string{{"a", one}, {"b", one}, {"victim", other}, {"c", one}},
			want:   []string{"c", "victim", "b", "a"},
		},
		"within a network": {
			arrive: [][2]string{{"a", inNetwork + "1"}, {"victim", inNetwork + "2"}, {"b", inNetwork + "1"}},
			want:   []string{"b", "victim", "a"},
		},
		"a network": {
			arrive: [][2]string{{"a", inNetwork + "1"}, {"b", inNetwork + "2"}, {"victim", other}, {"c", inNetwork + "3"}},
			want:   []string{"a", "victim", "b", "c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHall(t, 1)
				_, let := h.occupy()
				synctest.Wait()
				for _, come := range c.arrive {
					h.greetFrom(come[0], come[1])
					synctest.Wait()
				}
				let()
				h.work.Wait()
				if !slices.Equal(h.turns, c.want) {
					t.Errorf("turns %v, want %v", h.turns, c.want)
				}
			})
		})
	}
}

// A turn lasts while more of the ClientHello is there to read, and ends when the server
// reads after it has answered.
func TestHandshakes_turnOfLongHello(t *testing.T) {
	gate := admission.NewHandshakes(1, time.Hour)
	receive := func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
			t.Error(err)
		}
	}
	var conns []net.Conn
	for range 2 {
		near, far := tcpPipe(t)
		if _, err := near.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, gate.Conn(far))
	}
	receive(conns[0])
	done := make(chan struct{})
	go func() { defer close(done); receive(conns[1]) }()
	await.Until(t, "the second waits", func() bool {
		select {
		case <-done:
			t.Fatal("the turn ended when the ClientHello began")
		default:
		}
		return gate.Waiting() == 1
	})
	receive(conns[0])
	if gate.Waiting() != 1 {
		t.Error("the turn ended in the middle of the ClientHello")
	}
	_, _ = conns[0].Write([]byte("answer"))
	receive(conns[0])
	<-done
}

// A client that has gone costs no handshake, even if its ClientHello lies before its
// end in the socket.
func TestHandshakes_skipsGone(t *testing.T) {
	h := newRealHall(t, 1)
	occupant, let := h.occupy()
	await.Until(t, "the occupant has its turn", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.began })
	awaitWaiting := func(want int) {
		t.Helper()
		await.Until(t, fmt.Sprint(want, " wait"), func() bool { return h.gate.Waiting() == want })
	}
	near, far := tcpPipe(t)
	hello := &deaf{near, make(chan struct{})}
	h.work.Go(func() { _ = tls.Client(hello, h.client).HandshakeContext(context.Background()) })
	gone := h.arrive(far)
	awaitWaiting(1)
	_, _ = near.Write([]byte("more that nobody has read"))
	_ = near.Close()
	await.Until(t, "the client has gone", func() bool { return admission.HungUp(far) })
	there := h.greet("there")
	awaitWaiting(2)
	let()
	<-occupant.ended
	if err := <-there.ended; err != nil {
		t.Error(err)
	}
	if err := <-gone.ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the client that had gone: %v", err)
	}
	close(hello.gone)
	h.work.Wait()
}

func tcpPipe(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return near, far
}

// As many turns as were asked for, and each comes back.
func TestHandshakes_turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 2)
		_, letOne := h.occupy()
		_, letTwo := h.occupy()
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} {
			h.greet(name)
			synctest.Wait()
		}
		if n := h.gate.Waiting(); n != 3 {
			t.Errorf("%d wait", n)
		}
		letOne()
		synctest.Wait()
		if want := []string{"c", "b", "a"}; !slices.Equal(h.turns, want) {
			t.Errorf("turns %v, want %v", h.turns, want)
		}
		letTwo()
		h.work.Wait()
		h.greet("d")
		h.work.Wait()
		if n := h.gate.Waiting(); n != 0 || len(h.turns) != 4 {
			t.Errorf("%d wait, turns %v", n, h.turns)
		}
	})
}

// The tickets of one session are taken by every listener that shares the configuration.
func TestHandshakes_Config(t *testing.T) {
	h := newRealHall(t, 1)
	h.client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for n, want := range []bool{false, true, true} {
		near, far := tcpPipe(t)
		g := h.arrive(far)
		session := tls.Client(near, h.client)
		if err := session.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-g.ended; err != nil {
			t.Fatal(err)
		}
		_, _ = session.Read(make([]byte, 1)) // the ticket, and the end
		if got := session.ConnectionState().DidResume; got != want {
			t.Errorf("connection %d is resumed: %t", n, got)
		}
	}
}
