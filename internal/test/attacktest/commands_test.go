package attacktest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

const (
	commandTTL      = 2 * time.Second
	commandStations = 4
	commandClients  = 12

	// Addresses in the namespace of the test, the same after each kill.
	stormHTTP, stormMQTT = "127.0.0.1:8080", ":1883"
)

// Stalled links, frozen processes, kills and take-overs while many people unlock: no
// station that follows the contract opens a door after the deadline, none opens one
// without a record or twice, and no client is told success by a door that stayed shut.
func TestAttack_commandsUnderFaults(t *testing.T) {
	t.Parallel()
	if !isolated(t, "nft", "tc") {
		return
	}
	n := 600
	if gatewaytest.Torture() {
		n = 100_000
	}
	s := newStorm(t)
	s.run(n)
	s.judge()
}

// storm is a gateway with stations behind a cable that stalls, and many clients.
type storm struct {
	t      *testing.T
	p      *gatewaytest.Program
	host   *gatewaytest.Host
	issued []adminapi.IssuedStation
	bearer string

	mu       sync.Mutex // guards what follows
	asked    int
	success  int                  // unlocks that were answered so
	answered map[string]bool      // what the client of a command was told
	opened   map[string]time.Time // when a door was opened
	refused  int                  // commands that came too late
	faults   map[string]int
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{
		t: t, host: gatewaytest.NewHost(t, 1),
		answered: map[string]bool{}, opened: map[string]time.Time{}, faults: map[string]int{},
	}
	s.p = gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{
		"GATEHOUSE_HTTP_LISTEN=" + stormHTTP, "GATEHOUSE_MQTT_LISTEN=" + s.host.Here + stormMQTT,
		"GATEHOUSE_UNLOCK_TTL=" + commandTTL.String(),
		"GATEHOUSE_UNLOCK_ACCOUNT_RATE=0", "GATEHOUSE_UNLOCK_ACCOUNT_PENDING=0",
	}})
	s.p.AddAccount()
	for i := range commandStations {
		s.issued = append(s.issued, s.p.Enrol(site.StationID(i+1)))
	}
	s.bearer, _ = s.p.Login()
	return s
}

// run asks for so many unlocks while faults happen.
func (s *storm) run(n int) {
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	var stations, clients, faults sync.WaitGroup
	for i, issued := range s.issued {
		stations.Go(func() { s.beStation(ctx, issued, uint64(i)) }) //nolint:gosec // small
		s.p.AwaitOnline(issued.StationID, true)
	}
	for range commandClients {
		clients.Go(func() {
			for s.next(n) {
				s.unlock()
			}
		})
	}
	over := make(chan struct{})
	faults.Go(func() { s.fail(over) })
	clients.Wait()
	close(over)
	faults.Wait()
	stop()
	stations.Wait()
}

// next reports whether another unlock is to be asked for: until enough of them were
// answered, a tenth with success, and there was one fault of each kind.
func (s *storm) next(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return len(s.answered) < n || s.success < n/10 || slices.Min([]int{s.faults["stall"], s.faults["freeze"], s.faults["kill"], s.faults["both"]}) < 1
}

// unlock asks for one door and notes what was answered.
func (s *storm) unlock() {
	issued := s.issued[rand.IntN(len(s.issued))] //nolint:gosec // no secret
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+stormHTTP+"/v1/stations/"+issued.StationToken+"/locks/1/unlock", nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+s.bearer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil { // killed
		rest(time.Millisecond, nil)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return
	}
	if resp.StatusCode != http.StatusOK {
		s.t.Errorf("an unlock was answered %d %s", resp.StatusCode, body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	success := strings.Contains(string(body), "true")
	s.answered[resp.Header.Get("Gatehouse-Command")] = success
	if success {
		s.success++
	}
}

// fail makes one fault after the other until over is closed.
func (s *storm) fail(over <-chan struct{}) {
	kinds := []string{"stall", "freeze", "kill", "both"}
	for i := 0; ; i++ {
		kind := kinds[i%len(kinds)]
		span := time.Duration(rand.Int64N(int64(2 * commandTTL))) //nolint:gosec // no secret
		if !rest(commandTTL/4, over) {
			return
		}
		switch kind {
		case "stall":
			s.stall(span, over)
		case "freeze":
			s.freeze(span, over)
		case "kill":
			s.p.Kill()
			s.p.Start()
			s.p.AwaitReady()
		default:
			var both sync.WaitGroup
			both.Go(func() { s.stall(span, over) })
			both.Go(func() { s.freeze(span+commandTTL/2, over) })
			both.Wait()
		}
		s.mu.Lock()
		s.faults[kind]++
		s.mu.Unlock()
	}
}

// stall keeps what the gateway sends to its stations in a queue for a while.
func (s *storm) stall(span time.Duration, over <-chan struct{}) {
	s.host.Shape("rate 256bit burst 2000 limit 1000000")
	rest(span, over)
	s.host.Shape("rate 1gbit burst 160000 limit 1000000")
}

// freeze stops the process for a while.
func (s *storm) freeze(span time.Duration, over <-chan struct{}) {
	_ = s.p.Process.Process.Signal(syscall.SIGSTOP)
	rest(span, over)
	_ = s.p.Process.Process.Signal(syscall.SIGCONT)
}

// rest sets the pace of the storm; false: it is over.
func rest(span time.Duration, over <-chan struct{}) bool {
	select {
	case <-time.After(span): // real time: nothing is judged by how long it takes
		return true
	case <-over:
		return false
	}
}

// beStation is hardware that follows the contract: it starts with any uptime and a
// clock that is 100 millionths off, connects again and again, and now and then over a
// connection that it has.
func (s *storm) beStation(ctx context.Context, issued adminapi.IssuedStation, n uint64) {
	began, offset := time.Now(), 1000+n*1_000_000
	rate := 1 + 100e-6*float64(1-2*int(n%2))
	uptime := func(at time.Time) int64 { return int64(offset) + int64(float64(at.Sub(began).Milliseconds())*rate) } //nolint:gosec // small
	for ctx.Err() == nil {
		conn, err := s.dial(ctx)
		if err != nil {
			rest(5*time.Millisecond, ctx.Done())
			continue
		}
		release := context.AfterFunc(ctx, func() { _ = conn.Close() })
		station := &gatewaytest.Station{T: s.t, Conn: conn, Login: issued.MQTT, Version: 4}
		if err := station.TryConnect(); err == nil {
			_ = station.TryPublish("report", fmt.Appendf(nil, `{"uptime":%d}`, uptime(time.Now())))
			_ = station.TrySubscribe(1)
			s.serve(station, uptime, 1+rand.IntN(40)) //nolint:gosec // no secret
		}
		if rand.IntN(2) == 0 { //nolint:gosec // half of the time the next one takes over
			release()
			_ = conn.Close()
		}
	}
}

// serve carries out so many commands, then leaves the connection as it is.
func (s *storm) serve(station *gatewaytest.Station, uptime func(time.Time) int64, n int) {
	for range n {
		c, err := station.NextCommand()
		if err != nil {
			return
		}
		if c.NotAfter == 0 {
			s.t.Errorf("command %s came without notAfter after the uptime was reported", c.ID)
		}
		if now := time.Now(); uptime(now) > c.NotAfter {
			s.mu.Lock()
			s.refused++
			s.mu.Unlock()
			result, _ := json.Marshal(map[string]string{"id": c.ID, "result": "refused", "lockId": c.LockID}) //nolint:errchkjson // texts
			_ = station.TryPublish("result", result)
		} else {
			s.open(c.ID, now)
		}
		if err := station.TryAck(c); err != nil {
			return
		}
	}
}

func (s *storm) open(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened[id].IsZero() {
		s.t.Errorf("command %s opened a door twice", id)
	}
	s.opened[id] = at
}

func (s *storm) dial(ctx context.Context) (conn net.Conn, err error) {
	s.host.Do(func() { conn, err = new(net.Dialer).DialContext(ctx, "tcp", s.host.Here+stormMQTT) })
	return conn, err
}

// judge compares what happened at the doors with the journal and the answers.
func (s *storm) judge() {
	begun := map[string]time.Time{}
	for r, err := range s.p.Admin.Journal(s.t.Context(), client.JournalQuery{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if id := string(r.Command); r.Kind == site.KindUnlock && begun[id].IsZero() {
			begun[id] = r.Time.Time
		}
	}
	logged := map[string]bool{} // while the disk does not answer, the system log has the records
	for line := range strings.Lines(s.p.Log()) {
		if _, facts, kept := strings.Cut(line, "record kept in memory"); kept {
			_, command, _ := strings.Cut(facts, " command=")
			id, _, _ := strings.Cut(command, " ")
			logged[id] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const rounding = 2 * time.Millisecond // times are in whole milliseconds
	var latest time.Duration
	for id, at := range s.opened {
		from, ok := begun[id]
		if !ok {
			if !logged[id] {
				s.t.Errorf("command %s opened a door and has no record", id)
			}
			continue
		}
		latest = max(latest, at.Sub(from))
		if at.Sub(from) > commandTTL+rounding {
			s.t.Errorf("command %s opened a door %s after its request; its deadline was %s", id, at.Sub(from), commandTTL)
		}
	}
	for id, success := range s.answered {
		if success && s.opened[id].IsZero() {
			s.t.Errorf("command %s was answered success, and the door stayed shut", id)
		}
	}
	s.t.Logf("%d asked for, %d answered, %d of them success; %d opened, the latest after %s; %d came too late and were refused; faults %v",
		s.asked, len(s.answered), s.success, len(s.opened), latest, s.refused, s.faults)
}
