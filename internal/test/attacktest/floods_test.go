package attacktest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// maxResident is the most memory that the gateway may ever have, in bytes; its unit's
// hard limit is 300 MB.
const maxResident = 200 << 20

// Everything that the network can flood, all at once: unfinished requests on HTTP/2,
// silent sockets, unfinished handshakes, logins right and wrong, a storm of unlocks by
// an account that has the door too, stations that reconnect over TLS, and nobody who
// reads the log. The people of the house open their doors meanwhile, and the gateway
// keeps within its memory.
func TestAttack_everyFloodAtOnce(t *testing.T) {
	if !isolated(t, "nft") {
		return
	}
	f := newSiege(t)
	people, rounds := 8, 5
	if gatewaytest.Torture() {
		rounds = 600
	}
	f.logIn(people)
	ctx, stop := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	attacks := []func(context.Context){
		f.unfinishedRequests, f.silentSockets, f.unfinishedHandshakes, f.wrongPasswords, f.rightPasswords, f.unlocks, f.secureStations,
	}
	for _, attack := range attacks {
		attackers.Go(func() { attack(ctx) })
	}
	for range attacks {
		await.Receive(t, "every attack is under way", f.underWay)
	}
	f.live(people, rounds)
	stop()
	attackers.Wait()
	_, most := f.p.Resident()
	t.Logf("at most %d MB", most>>20)
	if most > maxResident {
		t.Errorf("the gateway took %d MB", most>>20)
	}
	select {
	case <-f.p.Ended():
		t.Error("the gateway has ended")
	default:
	}
}

// siege is a gateway, a house with people in it, and a host with many addresses that
// attacks.
type siege struct {
	t                           *testing.T
	p                           *gatewaytest.Program
	house, attacker             *gatewaytest.Host
	https, mqtt, mqtts          string // addresses as the house sees them
	aHTTPS, aMQTT, aMQTTSecured string // as the attacker does
	door                        adminapi.IssuedStation
	bearer                      string // of the attacker's account
	phones                      []*http.Client
	tokens                      []string      // of the people
	underWay                    chan struct{} // each attack sends once, when it has done something
}

const (
	attackers     = 40 // addresses of the attacking host
	attackerEmail = "guest@example.test"
)

func newSiege(t *testing.T, env ...string) *siege {
	t.Helper()
	f := &siege{t: t, house: gatewaytest.NewHost(t, 1), attacker: gatewaytest.NewHost(t, 2), underWay: make(chan struct{})}
	for i := range attackers {
		f.attacker.Command("ip", "addr", "add", fmt.Sprintf("10.77.2.%d/24", 3+i), "dev", "there")
	}
	launch := gatewaytest.Launch{Log: unread(t), Env: append(env,
		"GATEHOUSE_HTTP_LISTEN=127.0.0.1:0", "GATEHOUSE_HTTP_TLS_LISTEN=[::]:0",
		"GATEHOUSE_MQTT_LISTEN=[::]:0", "GATEHOUSE_MQTT_TLS_LISTEN=[::]:0",
	)}
	if gatewaytest.Torture() { // the attackers' work is not the board's: they get what it leaves
		launch.Wrap = []string{"nice", "-n", "-10"}
	}
	f.p = gatewaytest.Exec(t, launch)
	status, err := f.p.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range status.Listeners {
		_, port, _ := net.SplitHostPort(l.Address)
		house, attacker := net.JoinHostPort(f.house.Here, port), net.JoinHostPort(f.attacker.Here, port)
		switch l.Name {
		case "https":
			f.https, f.aHTTPS = house, attacker
		case "mqtt":
			f.mqtt, f.aMQTT = house, attacker
		case "mqtts":
			f.mqtts, f.aMQTTSecured = house, attacker
		}
	}
	f.p.AddAccount()
	f.door = f.p.Enrol(1042)
	for _, email := range []string{attackerEmail, person(0), person(1), person(2), person(3), person(4), person(5), person(6), person(7)} {
		if _, err := f.p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: email, Password: gatewaytest.Password}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.p.Admin.Grant(t.Context(), email, "1042", adminapi.GrantTerms{}); err != nil {
			t.Fatal(err)
		}
	}
	f.bearer = f.login(f.client(f.attacker, 0), f.aHTTPS, attackerEmail)
	conn := f.dial(f.house, 0, f.mqtt)
	if conn == nil {
		t.Fatal("the station cannot connect")
	}
	station := &gatewaytest.Station{T: t, Conn: conn, Login: f.door.MQTT, Version: 4}
	station.Open(1)
	go func() {
		for {
			c, err := station.NextCommand()
			if err != nil || station.TryAck(c) != nil {
				return
			}
		}
	}()
	f.p.AwaitOnline(site.StationID(1042), true)
	return f
}

func person(i int) string { return fmt.Sprintf("person-%d@example.test", i) }

// unread returns a pipe that takes nothing any more because nobody reads it.
func unread(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return w
}

// logIn logs the people of the house in.
func (f *siege) logIn(people int) {
	for i := range people {
		f.phones = append(f.phones, f.client(f.house, 0))
		f.tokens = append(f.tokens, f.login(f.phones[i], f.https, person(i)))
	}
}

// live lets the people of the house unlock, each about once a second.
func (f *siege) live(people, rounds int) {
	var all sync.WaitGroup
	for i := range people {
		all.Go(func() {
			pace := time.NewTicker(time.Second)
			defer pace.Stop()
			for range rounds {
				status, body := f.do(f.phones[i], f.https, "/v1/stations/"+f.door.StationToken+"/locks/1/unlock", f.tokens[i], nil)
				if status != http.StatusOK || !strings.Contains(body, "true") {
					f.t.Errorf("an unlock of the house was answered %d %s", status, body)
				}
				<-pace.C
			}
		})
	}
	all.Wait()
}

// dial connects from one of the addresses of a host; nil where that fails.
func (f *siege) dial(h *gatewaytest.Host, n int, address string) (conn net.Conn) {
	d := net.Dialer{Timeout: await.Patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 77, 1, 2)}}
	if h == f.attacker { // which soon tries something else
		d = net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 77, 2, byte(3+n%attackers))}}
	}
	h.Do(func() { conn, _ = d.Dial("tcp", address) })
	return conn
}

func (f *siege) client(h *gatewaytest.Host, n int) *http.Client {
	return &http.Client{Timeout: await.Patience, Transport: &http.Transport{
		TLSClientConfig: insecure(), ForceAttemptHTTP2: true,
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			if conn := f.dial(h, n, address); conn != nil {
				return conn, nil
			}
			return nil, net.ErrClosed
		},
	}}
}

// insecure trusts every server: what is tried here is not the certificate.
func insecure() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
}

func (f *siege) do(client *http.Client, address, path, bearer string, body []byte) (status int, answer string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://"+address+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func (f *siege) login(client *http.Client, address, email string) string {
	body := fmt.Appendf(nil, `{"email":%q,"password":%q}`, email, gatewaytest.Password)
	status, answer := f.do(client, address, "/v1/auth/login", "", body)
	_, token, ok := strings.Cut(answer, `"accessToken":"`)
	if !ok {
		f.t.Errorf("login of %s: %d %s", email, status, answer)
	}
	token, _, _ = strings.Cut(token, `"`)
	return token
}

// crowd keeps n connections open, each made by open with its number; one that ends is
// made again, at most 500 a second.
func (f *siege) crowd(ctx context.Context, n int, open func(i int) net.Conn) {
	places := make(chan int, n)
	for i := range n {
		places <- i
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	begun := f.begins(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case i := <-places:
			conn := open(i)
			if conn == nil {
				places <- i
				continue
			}
			begun()
			all.Go(func() {
				release := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.Copy(io.Discard, conn)
				release()
				_ = conn.Close()
				places <- i
			})
		}
	}
}

// begins returns a function that an attack calls after each step.
func (f *siege) begins(ctx context.Context) func() {
	return sync.OnceFunc(func() {
		select {
		case f.underWay <- struct{}{}:
		case <-ctx.Done():
		}
	})
}

// unfinishedRequests opens as many requests as it can and finishes none.
func (f *siege) unfinishedRequests(ctx context.Context) {
	f.crowd(ctx, 256, func(i int) net.Conn {
		conn := f.dial(f.attacker, i%4, f.aHTTPS)
		if conn == nil {
			return nil
		}
		config := insecure()
		config.NextProtos, config.ServerName = []string{"h2"}, "gatehouse"
		secure := secured(ctx, conn, config)
		if secure != nil {
			_, _ = secure.Write(unfinished(64))
		}
		return secure
	})
}

// secured returns the connection with TLS; nil where that fails. The gateway bounds how
// long it takes.
func secured(ctx context.Context, conn net.Conn, config *tls.Config) net.Conn {
	secure := tls.Client(conn, config)
	if secure.HandshakeContext(ctx) != nil {
		_ = conn.Close()
		return nil
	}
	return secure
}

// unfinished is the begin of an HTTP/2 connection with so many requests whose bodies
// never end.
func unfinished(requests int) []byte {
	const headers, data, settings = 1, 0, 4
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		head := []byte{0, 0, 0, kind, flags, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(head[1:], uint16(len(payload))) //nolint:gosec // below 64 KiB
		binary.BigEndian.PutUint32(head[5:], stream)
		return append(head, payload...)
	}
	literal := func(prefix []byte, value string) []byte {
		return append(append(prefix, byte(len(value))), value...)
	}
	block := slices.Concat([]byte{0x83, 0x87}, literal([]byte{0x04}, "/v1/auth/login"), literal([]byte{0x01}, "gatehouse"),
		literal([]byte{0x0f, 0x10}, "application/json"))
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0, nil)...)
	for i := range requests {
		stream := uint32(2*i + 1) //nolint:gosec // small
		out = append(out, frame(headers, 4, stream, block)...)
		out = append(out, frame(data, 0, stream, []byte(`{"email":"`))...)
	}
	return out
}

// silentSockets connects to the broker and says nothing.
func (f *siege) silentSockets(ctx context.Context) {
	f.crowd(ctx, 1500, func(int) net.Conn { return f.dial(f.attacker, 0, f.aMQTT) })
}

// unfinishedHandshakes begins TLS from many addresses and says no more.
func (f *siege) unfinishedHandshakes(ctx context.Context) {
	f.crowd(ctx, 1200, func(i int) net.Conn {
		conn := f.dial(f.attacker, i, f.aHTTPS)
		if conn != nil {
			_, _ = conn.Write([]byte{0x16})
		}
		return conn
	})
}

// secureStations connects to the broker over TLS as stations that nobody knows.
func (f *siege) secureStations(ctx context.Context) {
	f.crowd(ctx, 100, func(i int) net.Conn {
		conn := f.dial(f.attacker, i, f.aMQTTSecured)
		if conn == nil {
			return nil
		}
		return secured(ctx, conn, insecure())
	})
}

// repeat calls do from every address in turn, 50 times a second.
func (f *siege) repeat(ctx context.Context, do func(client *http.Client)) {
	clients := make([]*http.Client, attackers)
	for i := range clients {
		clients[i] = f.client(f.attacker, i)
		clients[i].Timeout = 5 * time.Second // it soon tries again
	}
	var all sync.WaitGroup
	defer all.Wait()
	begun := f.begins(ctx)
	slots := make(chan struct{}, 64)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case slots <- struct{}{}:
			all.Go(func() { do(clients[i%attackers]); begun(); <-slots })
		default:
		}
	}
}

// wrongPasswords guesses at the people's passwords.
func (f *siege) wrongPasswords(ctx context.Context) {
	f.repeat(ctx, func(client *http.Client) {
		f.do(client, f.aHTTPS, "/v1/auth/login", "", fmt.Appendf(nil, `{"email":%q,"password":"wrong-password-1"}`, person(0)))
	})
}

// rightPasswords logs in to the attacker's own account again and again.
func (f *siege) rightPasswords(ctx context.Context) {
	f.repeat(ctx, func(client *http.Client) {
		f.do(client, f.aHTTPS, "/v1/auth/login", "", fmt.Appendf(nil, `{"email":%q,"password":%q}`, attackerEmail, gatewaytest.Password))
	})
}

// unlocks asks for the door that the attacker may open too, as often as it can.
func (f *siege) unlocks(ctx context.Context) {
	f.repeat(ctx, func(client *http.Client) {
		f.do(client, f.aHTTPS, "/v1/stations/"+f.door.StationToken+"/locks/1/unlock", f.bearer, nil)
	})
}
