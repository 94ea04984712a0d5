//go:build board

package boardtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/adminapi"
)

// The account of the tests.
const (
	email    = "porter@example.test"
	password = "example-password-1"
)

// door is an account with a station that it may open. Both are on our side of the
// cable: they know the board by its address, its ports and its certificate.
type door struct {
	b       *board
	issued  adminapi.IssuedStation
	station *stationsim.Station
	client  *http.Client
	access  string

	mu     sync.Mutex              // guards the fields below
	events map[stationsim.Kind]int // how often each came
	opened map[site.CommandID]int  // how often each command opened a lock
}

// answer is an HTTP answer, read whole.
type answer struct {
	status  int
	command site.CommandID // that the answer is about
	body    []byte
}

// awaitReady waits until the gateway says that it can open doors, through a port
// that systemd holds.
func (b *board) awaitReady() {
	b.Helper()
	client := &http.Client{Timeout: await.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	await.Until(b, "the gateway is ready", func() bool {
		got, err := fetch(client, http.MethodGet, "http://"+b.address+"/readyz")
		return err == nil && got.status == http.StatusOK
	})
}

// authority returns the authority that the gateway made for itself, as an app gets
// it.
func (b *board) authority() []byte {
	b.Helper()
	client := &http.Client{Timeout: await.Patience}
	got, err := fetch(client, http.MethodGet, "http://"+b.address+"/ca.crt")
	if err != nil || got.status != http.StatusOK {
		b.Fatalf("GET /ca.crt: %d %s %v", got.status, got.body, err)
	}
	return got.body
}

// trusting is for those who trust an authority and nobody else.
func (b *board) trusting(authority []byte) *tls.Config {
	b.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		b.Fatalf("not a certificate: %s", authority)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// unknownDoor is a door of which the board does not know.
func (b *board) unknownDoor() *door {
	return &door{b: b, events: make(map[stationsim.Kind]int), opened: make(map[site.CommandID]int)}
}

// newDoor makes the account, a station and the grant on the board, and logs in.
func (b *board) newDoor(id site.StationID) *door {
	b.Helper()
	b.sh("gatehouse account list --json | grep --quiet " + email +
		" || echo " + password + " | gatehouse account add " + email + " --password-stdin >/dev/null")
	d := b.unknownDoor()
	n := id.String()
	out := b.sh("gatehouse station add --id " + n + " --locks 2 --json; gatehouse grant " + email + " " + n + " >/dev/null")
	b.must(json.Unmarshal([]byte(out), &d.issued))
	d.trust(b.authority())
	d.login()
	return d
}

// startDoor is newDoor with its station running.
func (b *board) startDoor(id site.StationID) *door {
	b.Helper()
	d := b.newDoor(id)
	d.start(b.trusting(b.authority()))
	return d
}

// trust makes the app trust an authority.
func (d *door) trust(authority []byte) {
	d.b.Helper()
	d.client = &http.Client{Timeout: await.Patience, Transport: &http.Transport{TLSClientConfig: d.b.trusting(authority)}}
}

// start switches the station on, until the test ends.
func (d *door) start(secured *tls.Config) {
	d.b.Helper()
	station, err := stationsim.New(stationsim.Config{
		Broker: stationsim.Broker{Address: net.JoinHostPort(d.b.address, "8883"), Dial: (&tls.Dialer{Config: secured}).DialContext},
		ID:     d.issued.StationID, Secret: site.Secret(d.issued.MQTT.Password), Locks: 2,
		Actuation: 5 * time.Millisecond, Relock: 100 * time.Millisecond,
		Backoff: stationsim.Backoff{Min: 50 * time.Millisecond, Max: 500 * time.Millisecond},
		OnEvent: d.note,
	})
	d.b.must(err)
	d.station = station
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = station.Run(ctx)
	}()
	d.b.Cleanup(func() {
		cancel()
		<-done
	})
}

func (d *door) note(e stationsim.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events[e.Kind]++
	if e.Kind == stationsim.Opened {
		d.opened[e.Command]++
	}
}

// count reports how often something happened at the station.
func (d *door) count(kind stationsim.Kind) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.events[kind]
}

// openings reports how often a command opened a lock.
func (d *door) openings(id site.CommandID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened[id]
}

// login logs the account in.
func (d *door) login() {
	d.b.Helper()
	body := `{"email":"` + email + `","password":"` + password + `"}`
	got, err := d.ask(http.MethodPost, "/v1/auth/login", body)
	var tokens struct{ AccessToken string }
	if err != nil || got.status != http.StatusOK || json.Unmarshal(got.body, &tokens) != nil {
		d.b.Fatalf("login: %d %s %v", got.status, got.body, err)
	}
	d.access = tokens.AccessToken
}

// ask sends a request to the board, over TLS.
func (d *door) ask(method, path, body string) (answer, error) {
	return request{method: method, url: "https://" + d.b.address + path, bearer: d.access, body: body}.send(d.client)
}

// unlockPath is where one of its locks is opened.
func (d *door) unlockPath(lock int) string {
	return "/v1/stations/" + d.issued.StationToken + "/locks/lock-" + strconv.Itoa(lock) + "/unlock"
}

// online reports whether the gateway takes the station to be online, and the station
// has subscribed to its commands, which comes a moment later.
func (d *door) online() bool {
	got, err := d.ask(http.MethodGet, "/v1/stations/"+d.issued.StationToken, "")
	return err == nil && got.status == http.StatusOK && strings.Contains(string(got.body), `"status":"online"`) &&
		d.station.Status().Connected
}

// mustOpen waits for the station, opens lock-1, and sees that it opened, once.
func (d *door) mustOpen() {
	d.b.Helper()
	await.Until(d.b, "the station is online", d.online)
	got, err := d.ask(http.MethodPost, d.unlockPath(1), "")
	if err != nil || got.status != http.StatusOK || strings.TrimSpace(string(got.body)) != `{"success":true}` {
		d.b.Fatalf("unlock: %d %s %v", got.status, got.body, err)
	}
	await.Until(d.b, "the lock is open", func() bool { return d.openings(got.command) > 0 })
	if n := d.openings(got.command); n != 1 {
		d.b.Fatalf("one unlock opened the lock %d times", n)
	}
}

// fetch sends one request without a token.
func fetch(client *http.Client, method, url string) (answer, error) {
	return request{method: method, url: url}.send(client)
}

// request is what an app asks; whatever is empty is left out.
type request struct {
	method, url, bearer string
	key                 string // Idempotency-Key
	body                string // JSON
}

// send sends the request, and reads the answer whole.
func (r request) send(client *http.Client) (answer, error) {
	req, err := http.NewRequest(r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+r.bearer)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	return answer{status: resp.StatusCode, command: site.CommandID(resp.Header.Get("Gatehouse-Command")), body: data}, nil
}
