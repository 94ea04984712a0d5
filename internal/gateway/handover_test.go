package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gatehouse/internal/gateway"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// socket is a listening socket that outlives gateways, as systemd holds it.
type socket struct{ *net.TCPListener }

func newSocket(t *testing.T, address string) socket {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return socket{l.(*net.TCPListener)}
}

// copy returns what one gateway inherits.
func (s socket) copy(t *testing.T) net.Listener {
	t.Helper()
	file, err := s.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Gateways that follow one another on the same sockets refuse no request, and what
// they call a success the station was told exactly once.
func TestGateway_handover(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	httpSocket, mqttSocket := newSocket(t, "127.0.0.1:0"), newSocket(t, "127.0.0.1:0")
	cfg.HTTP.Listen, cfg.MQTT.Listen = []string{httpSocket.Addr().String()}, []string{mqttSocket.Addr().String()}
	inherit := func() gateway.Config {
		return gateway.Config{Config: cfg, Sockets: []net.Listener{httpSocket.copy(t), mqttSocket.copy(t)}}
	}
	g := gatewaytest.RunAs(t, inherit())
	g.AddAccount()
	issued := g.Enrol(1042)
	access, _ := g.Login()
	told := answerFor(t, mqttSocket.Addr().String(), issued.MQTT)
	g.AwaitOnline(1042, true)

	load := newLoad(t, g.HTTP+"/v1/stations/"+issued.StationToken+"/locks/1/unlock", access)
	for range 5 {
		load.await(t, 100)
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
		early, err := net.Dial("tcp", httpSocket.Addr().String())
		if err != nil {
			t.Fatalf("refused between two gateways: %v", err)
		}
		if _, err := fmt.Fprintf(early, "GET /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\nConnection: close\r\n\r\n"); err != nil {
			t.Error(err)
		}
		g = gatewaytest.RunAs(t, inherit())
		if answer, err := io.ReadAll(early); !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
			t.Errorf("who came between two gateways was answered %q, %v", answer, err)
		}
		g.AwaitOnline(1042, true)
	}
	load.end()
	if err := load.failed(); err != nil {
		t.Error(err)
	}
	var opened []string
	for _, r := range g.Records() {
		if r.Kind == site.KindUnlock && r.Outcome == site.Acknowledged {
			opened = append(opened, string(r.Command))
		}
	}
	if n := int(load.opened.Load()); n < 500 || len(opened) < n {
		t.Errorf("%d successes, of which %d are in the journal", n, len(opened))
	}
	for _, id := range opened {
		if n, _ := told.Load(id); n != 1 {
			t.Errorf("the station was told %v times of %s", n, id)
		}
	}
}

// answerFor acknowledges every command as that station, reconnects whenever its
// connection ends, and counts how often it was told of each command.
func answerFor(t *testing.T, address string, login adminapi.MQTTLogin) *sync.Map {
	t.Helper()
	told := new(sync.Map)
	var ending atomic.Bool
	var live atomic.Pointer[gatewaytest.Station]
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !ending.Load() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			s := &gatewaytest.Station{T: t, Conn: conn, Login: login, Version: 4}
			live.Store(s)
			if err := s.TryOpen(1); err != nil {
				_ = conn.Close()
				continue
			}
			for {
				c, err := s.NextCommand()
				if err != nil {
					break
				}
				n, _ := told.LoadOrStore(c.ID, 0)
				told.Store(c.ID, n.(int)+1)
				if err := s.TryAck(c); err != nil {
					break
				}
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		ending.Store(true)
		if s := live.Load(); s != nil {
			_ = s.Conn.Close()
		}
		<-done
	})
	return told
}

// load sends requests without a pause: half of them over connections that are kept,
// half over new ones. Those over kept ones have an Idempotency-Key, with which the
// client repeats what went out on a connection that the gateway was about to close:
// HTTP/1.1 has no other way (RFC 9112, section 9.3.1).
type load struct {
	asked, opened atomic.Int64
	stop          atomic.Bool
	done          sync.WaitGroup

	mu     sync.Mutex // mu guards errors
	errors []error
}

func newLoad(t *testing.T, url, access string) *load {
	t.Helper()
	l := new(load)
	t.Cleanup(l.end)
	for i := range 6 {
		kept := i%2 == 1
		transport := &http.Transport{DisableKeepAlives: !kept, MaxIdleConnsPerHost: 1}
		client := &http.Client{Transport: transport}
		l.done.Go(func() {
			defer transport.CloseIdleConnections()
			for n := 0; !l.stop.Load() && (!kept || n < 300); n++ { // an account has 1,000 keys in ten minutes
				header := http.Header{"Authorization": {"Bearer " + access}}
				if kept {
					header.Set("Idempotency-Key", fmt.Sprintf("unlock-%d-%d", i, n))
				}
				if err := l.ask(client, url, header); err != nil {
					l.mu.Lock()
					l.errors = append(l.errors, err)
					l.mu.Unlock()
				}
			}
		})
	}
	return l
}

func (l *load) ask(client *http.Client, url string, header http.Header) error {
	req, err := http.NewRequest(http.MethodPost, url, nil) //nolint:noctx // ends with the gateway
	if err != nil {
		return err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	l.asked.Add(1)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Status, body)
	case strings.Contains(string(body), "true"):
		l.opened.Add(1)
	}
	return nil
}

// await waits for so many more answers.
func (l *load) await(t *testing.T, n int64) {
	t.Helper()
	want := l.opened.Load() + n
	await.Until(t, "the load goes on", func() bool { return l.opened.Load() >= want })
}

func (l *load) end() {
	l.stop.Store(true)
	l.done.Wait()
}

func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errors) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d requests failed, such as: %w", len(l.errors), l.asked.Load(), errors.Join(l.errors[:min(3, len(l.errors))]...))
}
