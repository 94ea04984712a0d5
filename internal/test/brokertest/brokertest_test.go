package brokertest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"go.uber.org/goleak"

	"gatehouse/internal/test/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; it is no measure of speed.
const patience = 2 * time.Minute

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
	client := mqtt.NewClient(mqtt.NewClientOptions().AddBroker("tcp://" + address).SetClientID("test-" + user).
		SetUsername(user).SetPassword(password).SetAutoReconnect(false).SetConnectTimeout(patience))
	token := client.Connect()
	token.WaitTimeout(patience)
	if token.Error() == nil {
		t.Cleanup(func() { client.Disconnect(100) })
	}
	return client, token.Error()
}

// Both keep what was retained across a SIGKILL and come back on the same port.
func TestBroker_killedAndStartedAgain(t *testing.T) {
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			client, err := dial(t, b.Address(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			token := client.Publish("gateways/a/status", 1, true, "kept")
			if !token.WaitTimeout(patience) || token.Error() != nil {
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
			select {
			case text := <-got:
				if text != "kept" {
					t.Errorf("got %q", text)
				}
			case <-time.After(patience):
				t.Error("what was retained is gone")
			}
		})
	}
}

func TestBroker_users(t *testing.T) {
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
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
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
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

// echo listens and sends back what comes.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
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

// hear sends a word and reads it back, for at most that long.
func hear(conn net.Conn, word string, limit time.Duration) error {
	if _, err := conn.Write([]byte(word)); err != nil {
		return err
	}
	return await(conn, word, limit)
}

func await(conn net.Conn, word string, limit time.Duration) error {
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	text := make([]byte, len(word))
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	if string(text) != word {
		return errors.New("got " + string(text))
	}
	return nil
}

func TestProxy_holdAndRelease(t *testing.T) {
	p := brokertest.NewProxy(t, echo(t))
	conn := through(t, p)
	if err := hear(conn, "one", patience); err != nil {
		t.Fatal(err)
	}
	p.Hold()
	if err := hear(conn, "two", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a held connection: %v, want silence", err)
	}
	late := through(t, p)
	if err := hear(late, "late", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that is made meanwhile: %v, want silence", err)
	}
	p.Release()
	if err := await(conn, "two", patience); err != nil {
		t.Errorf("after Release: %v", err)
	}
	if err := await(late, "late", patience); err != nil {
		t.Errorf("after Release, the later one: %v", err)
	}
}

func TestProxy_cutAndRefuse(t *testing.T) {
	p := brokertest.NewProxy(t, echo(t))
	conn := through(t, p)
	if err := hear(conn, "one", patience); err != nil {
		t.Fatal(err)
	}
	p.Hold() // a held one is cut as well
	p.Cut()
	if err := hear(conn, "two", patience); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a cut connection: %v, want a reset", err)
	}
	p.Release()
	p.Refuse(true)
	refused, err := net.Dial("tcp", p.Address())
	if err == nil { // the reset may come as soon as that
		err = hear(refused, "three", patience)
		_ = refused.Close()
	}
	if err == nil {
		t.Error("somebody got through while all are refused")
	}
	p.Refuse(false)
	if err := hear(through(t, p), "four", patience); err != nil {
		t.Errorf("after Refuse(false): %v", err)
	}
}

// Of several targets one that is gone is passed over.
func TestProxy_targets(t *testing.T) {
	gone, err := brokertest.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	here := echo(t)
	p, err := brokertest.ListenProxy("127.0.0.1:0", gone[0], here)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 4 {
		if err := hear(through(t, p), "x", patience); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.Through(here); n != 4 {
		t.Errorf("%d connections pass to the target that is there, want 4", n)
	}
}

// What is written before an orderly end arrives.
func TestProxy_passesTheEndOn(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !passes(t, members[1].Address(), members[2].Address()) {
		if ctx.Err() != nil {
			t.Fatal("nothing comes through after one of three was killed")
		}
	}
}

// passes connects to both servers anew, as clients do that an election of the servers
// made give up, and says whether a message passes from the second to the first.
func passes(t *testing.T, to, from string) bool {
	t.Helper()
	const attempt = 5 * time.Second
	got := make(chan struct{}, 1)
	subscriber, err := dial(t, to, "subscriber", "")
	if err != nil {
		return false
	}
	defer subscriber.Disconnect(0)
	heard := subscriber.Subscribe("a/b", 1, func(mqtt.Client, mqtt.Message) {
		select {
		case got <- struct{}{}:
		default:
		}
	})
	if !heard.WaitTimeout(attempt) || heard.Error() != nil {
		return false
	}
	publisher, err := dial(t, from, "publisher", "")
	if err != nil {
		return false
	}
	defer publisher.Disconnect(0)
	if told := publisher.Publish("a/b", 1, false, "after"); !told.WaitTimeout(attempt) || told.Error() != nil {
		return false
	}
	select {
	case <-got:
		return true
	case <-time.After(attempt):
		return false
	}
}
