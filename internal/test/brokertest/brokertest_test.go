package brokertest_test

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// brokers are those that everything must work with.
func brokers() map[string]func(testing.TB, ...brokertest.Option) *brokertest.Broker {
	return map[string]func(testing.TB, ...brokertest.Option) *brokertest.Broker{
		"Mosquitto": brokertest.Mosquitto,
		"NATS":      brokertest.NATS,
	}
}

// dial connects a client that does nothing by itself.
func dial(t *testing.T, address, user, password string) (mqtt.Client, error) {
	t.Helper()
	client := newClient(address, user, password)
	token := client.Connect()
	await.Receive(t, "an answer to CONNECT", token.Done())
	if token.Error() == nil {
		t.Cleanup(func() { client.Disconnect(0) })
	}
	return client, token.Error()
}

func newClient(address, user, password string) mqtt.Client {
	return mqtt.NewClient(mqtt.NewClientOptions().AddBroker("tcp://" + address).SetClientID("test-" + rand.Text()).
		SetUsername(user).SetPassword(password).SetAutoReconnect(false).SetConnectTimeout(await.Patience))
}

// Both keep what was retained across a SIGKILL and come back on the same port.
func TestBroker_killedAndStartedAgain(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			client, err := dial(t, b.Address(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			token := client.Publish("gateways/a/status", 1, true, "kept")
			if await.Receive(t, "an acknowledgement", token.Done()); token.Error() != nil {
				t.Fatal(token.Error())
			}
			b.Settle(t)
			pid := b.PID()
			b.Kill()
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Fatalf("process %d after Kill: %v", pid, err)
			}
			if err := b.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if client, err = dial(t, b.Address(), "", ""); err != nil {
				t.Fatal(err)
			}
			got := make(chan string, 1)
			client.Subscribe("gateways/+/status", 1, func(_ mqtt.Client, m mqtt.Message) { got <- string(m.Payload()) })
			if text := await.Receive(t, "what was retained", got); text != "kept" {
				t.Errorf("got %q", text)
			}
		})
	}
}

func TestBroker_users(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, brokertest.Users(map[string]string{"gate": "example-password"}))
			if _, err := dial(t, b.Address(), "gate", "example-password"); err != nil {
				t.Errorf("with the password: %v", err)
			}
			if _, err := dial(t, b.Address(), "gate", "another"); err == nil {
				t.Error("a wrong password was accepted")
			}
			if _, err := dial(t, b.Address(), "", ""); err == nil {
				t.Error("nobody in particular was accepted")
			}
		})
	}
}

func TestBroker_startFails(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.Kill()
			l, err := net.Listen("tcp", b.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := b.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "ended by itself") {
				t.Errorf("on a port that is taken: %v", err)
			}
		})
	}
}

// server listens, sends back what comes, and remembers it.
type server struct {
	address string
	mu      sync.Mutex // mu guards all
	all     strings.Builder
}

// Write remembers what came.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

// arrived returns what has come, over all connections.
func (s *server) arrived() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

func echo(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &server{address: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, io.TeeReader(conn, s))
			}()
		}
	}()
	return s
}

// through connects by the proxy.
func through(t *testing.T, p *brokertest.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// hear sends a word and reads it back.
func hear(conn net.Conn, word string) error {
	if _, err := conn.Write([]byte(word)); err != nil {
		return err
	}
	return receive(conn, word)
}

func receive(conn net.Conn, word string) error {
	_ = conn.SetReadDeadline(await.Deadline())
	text := make([]byte, len(word))
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	if string(text) != word {
		return errors.New("got " + string(text))
	}
	return nil
}

// What is written while the proxy holds arrives after all that passes by another way
// meanwhile.
func TestProxy_holdAndRelease(t *testing.T) {
	t.Parallel()
	s := echo(t)
	p, other := brokertest.NewProxy(t, s.address), through(t, brokertest.NewProxy(t, s.address))
	conn := through(t, p)
	if err := hear(conn, "one"); err != nil {
		t.Fatal(err)
	}
	p.Hold()
	late := through(t, p)
	for held, word := range map[net.Conn]string{conn: "two", late: "late"} {
		if _, err := held.Write([]byte(word)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if err := hear(other, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.arrived(); got != "one"+strings.Repeat("x", 20) {
		t.Errorf("while it holds there arrived %s", got)
	}
	p.Release()
	for released, word := range map[net.Conn]string{conn: "two", late: "late"} {
		if err := receive(released, word); err != nil {
			t.Errorf("after Release: %v", err)
		}
	}
}

func TestProxy_cutAndRefuse(t *testing.T) {
	t.Parallel()
	p := brokertest.NewProxy(t, echo(t).address)
	conn := through(t, p)
	if err := hear(conn, "one"); err != nil {
		t.Fatal(err)
	}
	p.Hold() // a held one is cut as well
	p.Cut()
	if err := hear(conn, "two"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a cut connection: %v, want a reset", err)
	}
	p.Release()
	p.Refuse(true)
	refused, err := net.Dial("tcp", p.Address())
	if err == nil { // the reset may come as soon as that
		err = hear(refused, "three")
		_ = refused.Close()
	}
	if err == nil {
		t.Error("somebody got through while all are refused")
	}
	p.Refuse(false)
	if err := hear(through(t, p), "four"); err != nil {
		t.Errorf("after Refuse(false): %v", err)
	}
}

// Of several targets one that is gone is passed over.
func TestProxy_targets(t *testing.T) {
	t.Parallel()
	gone, err := brokertest.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	here := echo(t).address
	p, err := brokertest.ListenProxy("127.0.0.1:0", gone[0], here)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 4 {
		if err := hear(through(t, p), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.Through(here); n != 4 {
		t.Errorf("%d connections pass to the target that is there, want 4", n)
	}
}

// What is written before an orderly end arrives.
func TestProxy_passesTheEndOn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := brokertest.NewProxy(t, l.Addr().String())
	conn := through(t, p)
	if _, err := conn.Write([]byte("goodbye")); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if text, err := io.ReadAll(far); err != nil || string(text) != "goodbye" {
		t.Errorf("got %q, %v", text, err)
	}
}

// Who connects to a cluster while one of three is gone is served.
func TestNATSCluster_oneKilled(t *testing.T) {
	t.Parallel()
	members, err := brokertest.NATSCluster(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		defer m.Kill()
		if err := m.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range members {
		if err := m.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	members[0].Kill()
	attempt := time.Second
	await.Until(t, "a message passes after one of three was killed", func() bool {
		attempt *= 2 // no server is too slow for all of them
		return passes(t, members[1].Address(), members[2].Address(), attempt)
	})
}

// passes connects to both servers anew, as clients do that an election of the servers
// made give up, and reports whether a message passes from the second to the first. A
// server may forget what it was told during the election: each step has only so long.
func passes(t *testing.T, to, from string, attempt time.Duration) bool {
	t.Helper()
	got := make(chan struct{}, 1)
	subscriber, publisher := newClient(to, "", ""), newClient(from, "", "")
	defer subscriber.Disconnect(0)
	defer publisher.Disconnect(0)
	note := func(mqtt.Client, mqtt.Message) {
		select {
		case got <- struct{}{}:
		default:
		}
	}
	for _, step := range []func() mqtt.Token{
		subscriber.Connect,
		func() mqtt.Token { return subscriber.Subscribe("a/b", 1, note) },
		publisher.Connect,
		func() mqtt.Token { return publisher.Publish("a/b", 1, false, "after") },
	} {
		if token := step(); !token.WaitTimeout(attempt) || token.Error() != nil {
			return false
		}
	}
	select {
	case <-got:
		return true
	case <-time.After(attempt): // real time: the next attempt has twice as long
		return false
	}
}
