package broker_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/test/await"
)

// certified makes the two sides' TLS configuration for 127.0.0.1.
func certified(t testing.TB) (server, station *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// secured is a broker behind TLS, and how to reach it.
func secured(t testing.TB, limits broker.Limits) (g *gate, dial func() *client) {
	t.Helper()
	server, station := certified(t)
	g = open(t, setup{limits: limits, listeners: []broker.Listener{{Net: listen(t), TLS: server}}})
	return g, func() *client {
		raw := g.dial()
		return newClient(t, tls.Client(raw.conn, station))
	}
}

func TestServer_tls(t *testing.T) {
	g, dial := secured(t, broker.Limits{})
	for _, version := range []byte{4, 5} {
		c := dial()
		c.connect(1, version)
		c.subscribe(1, 1)
		conn := g.connOf(1)
		c.exchangeCommand(conn, 1)
		c.send(publication(version, 2, "stations/1/report", 5, "{}"))
		c.expect(0x40)
		c.send([]byte{0xE0, 0})
		c.expectEnd()
		await.Until(t, "the end", func() bool { return len(g.handler.live()) == 0 })
	}
}

// The handshake falls within the time to CONNECT, and does not stop the accepting.
func TestServer_tls_silent(t *testing.T) {
	server, station := certified(t)
	var p *pipes
	want := func() setup {
		p = newPipes()
		return setup{limits: broker.Limits{ConnectTimeout: 5 * time.Second}, listeners: []broker.Listener{{Net: p, TLS: server}}}
	}
	bubbleWith(t, want, func(t *testing.T, _ *gate, _ *pipes) {
		start := time.Now()
		var silent []*client
		for range 20 {
			silent = append(silent, p.dial(t))
		}
		c := newClient(t, tls.Client(p.dial(t).conn, station))
		c.connect(1, 4)
		for _, s := range silent {
			if packets := s.expectEnd(); len(packets) > 0 {
				t.Errorf("answered %x", packets)
			}
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("the silent were dropped after %s", took)
		}
		c.ping()
		c.close() // lest the goodbye of TLS wait for a reader
	})
}

// The time to the CONNECT begins with the end of the handshake.
func TestServer_tls_connectTimeout(t *testing.T) {
	server, station := certified(t)
	var p *pipes
	want := func() setup {
		p = newPipes()
		return setup{limits: broker.Limits{ConnectTimeout: 5 * time.Second}, listeners: []broker.Listener{{Net: p, TLS: server}}}
	}
	bubbleWith(t, want, func(t *testing.T, _ *gate, _ *pipes) {
		for _, late := range []bool{false, true} {
			session := tls.Client(p.dial(t).conn, station)
			time.Sleep(4 * time.Second)
			if err := session.Handshake(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Second)
			c := newClient(t, session)
			if late {
				time.Sleep(2 * time.Second)
				c.expectEnd()
				continue
			}
			c.connect(1, 4)
			c.ping()
			c.close() // lest the goodbye of TLS wait for a reader
		}
	})
}

func TestServer_tls_noHandshake(t *testing.T) {
	g, dial := secured(t, broker.Limits{})
	for name, b := range map[string][]byte{
		"plain MQTT": helloOf(1, 4).bytes(),
		"HTTP":       []byte("GET / HTTP/1.1\r\n\r\n"),
		"zeros":      make([]byte, 100),
	} {
		c := g.dial()
		c.try(b)
		c.conn.(*net.TCPConn).CloseWrite()
		for {
			if _, err := c.in.ReadByte(); isEnd(err) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	await.Until(t, "three refusals", func() bool { return g.refusals("mqtt-tls") == "3" })
	dial().connect(1, 4)
}

// A reset goes through TLS, also while a write is stuck in it.
func TestConn_Reset_tls(t *testing.T) {
	server, station := certified(t)
	g := open(t, setup{listeners: []broker.Listener{{Net: narrow(t), TLS: server}}})
	raw := g.dial()
	_ = raw.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	c := newClient(t, tls.Client(raw.conn, station))
	c.connect(1, 4)
	c.subscribe(1, 1)
	conn := g.connOf(1)
	failed := stuckSend(c, conn)
	conn.Reset("enough")
	if err := await.Receive(t, "the stuck Send", failed); err == nil {
		t.Error("the stuck Send gave no error")
	}
	raw.expectReset()
}

// A turn of a connection that was evicted in it goes on to the next.
func TestServer_tls_evictedInItsTurn(t *testing.T) {
	g, dial := secured(t, broker.Limits{})
	other := listen(t)
	near, err := net.Dial("tcp", other.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := other.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	g.server.WelcomeEvicted(far, new(tls.Config))
	dial().connect(1, 4)
}
