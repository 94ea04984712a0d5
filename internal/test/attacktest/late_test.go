package attacktest_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// A phone's link dies with an unlock on its way and comes back. The phone's kernel then sends
// the request alone, and the end of the connection, which the app has closed meanwhile, one
// round trip later: eight of eight doors opened 13 s after the tap with nobody waiting.
// Apps that go on waiting are answered.
//
// The round trip gets shorter while the link is dead. So only a machine that delays a packet
// by the difference delays the end of a client beyond what the gateway has measured; such a
// round is void and done again.
func TestAttack_lateAcrossALink(t *testing.T) {
	t.Parallel()
	if !isolated(t) {
		return
	}
	l := newLateLink(t)
	if !gatewaytest.Torture() {
		for !l.round(150*time.Millisecond, 50*time.Millisecond, 3) && !t.Failed() {
		}
		return
	}
	for range 12 { // of 15 apps for each round trip: 1,080
		for _, oneWay := range []time.Duration{500 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond, 75 * time.Millisecond, 150 * time.Millisecond} {
			l.round(oneWay, oneWay, 3)
			t.Logf("a round trip of %s: an unlock takes %s at the median, on a new connection %s", 2*oneWay, l.median(false), l.median(true))
		}
	}
	t.Logf("%d apps had gone, %d were void, %d waited", l.gone, l.void, l.waited)
}

// lateLink is a gateway with a station of 16 locks here, and apps at the far end of a link,
// each for a lock of its own.
type lateLink struct {
	*gatewaytest.Link
	t      *testing.T
	p      *gatewaytest.Program
	access string
	token  string
	apps   []*lateApp

	mu     sync.Mutex // mu guards opened
	opened map[string]time.Time

	begun              uint64 // number of the last record before the round
	gone, void, waited int    // apps, in all rounds
}

func newLateLink(t *testing.T) *lateLink {
	l := &lateLink{Link: gatewaytest.NewLink(t, 1, 0), t: t, opened: make(map[string]time.Time)}
	l.p = gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{
		"GATEHOUSE_HTTP_LISTEN=" + l.Here + ":0", "GATEHOUSE_HTTP_TLS_LISTEN=" + l.Here + ":0",
	}})
	l.p.AddAccount()
	issued, err := l.p.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 7, Locks: 16})
	if err == nil {
		_, err = l.p.Admin.Grant(t.Context(), gatewaytest.Email, "7", adminapi.GrantTerms{})
	}
	if err != nil {
		t.Fatal(err)
	}
	l.token = issued.StationToken
	l.access, _ = l.p.Login()
	station := l.p.Dial(issued.MQTT)
	t.Cleanup(station.Close)
	l.p.AwaitOnline(7, true)
	go func() {
		for {
			c, err := station.NextCommand()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.opened[c.LockID] = time.Now()
			l.mu.Unlock()
			_ = station.TryAck(c)
		}
	}()
	return l
}

// round has apps of each protocol send an unlock into the dead link: two of three leave
// before it is back. before is the delay of one way until the link dies, after from then
// on. It reports whether at least one of each protocol that left counts.
func (l *lateLink) round(before, after time.Duration, outage uint8) bool {
	l.Delay(before)
	clear(l.opened)
	for r, err := range l.p.Admin.Journal(l.t.Context(), client.JournalQuery{}) {
		if err != nil {
			l.t.Fatal(err)
		}
		l.begun = max(l.begun, r.Seq)
	}
	l.apps = nil
	for i := range 15 {
		l.apps = append(l.apps, l.newApp(i))
	}
	l.Die()
	l.Delay(after)
	for _, a := range l.apps {
		a.ask()
	}
	for _, a := range l.apps {
		await.Until(l.t, "the far kernel repeats the request", func() bool { return a.repeats() >= outage })
		if a.leaves {
			a.leave()
		}
	}
	l.Revive()
	counts := map[string]int{}
	for _, a := range l.apps {
		if l.judge(a, 2*before) {
			counts[a.protocol]++
		}
		a.transport.CloseIdleConnections()
	}
	return len(counts) == len(protocols)
}

// median returns how long an unlock takes over HTTP/1.1, on one connection that is older
// than 2 s, or on a new one each time.
func (l *lateLink) median(fresh bool) time.Duration {
	l.t.Helper()
	a := l.newApp(0)
	if !fresh {
		<-time.After(2 * time.Second) // real time: the connection gets as old
	}
	took := make([]time.Duration, 21)
	for i := range took {
		if fresh {
			a.transport.CloseIdleConnections()
			a = l.newApp(0)
		}
		began := time.Now()
		a.ask()
		if !await.Receive(l.t, "the answer", a.answered) {
			l.t.Error("refused although the app waits")
		}
		took[i] = time.Since(began) // real time: logged, and no verdict
	}
	a.transport.CloseIdleConnections()
	slices.Sort(took)
	return took[len(took)/2]
}

// judge waits for the end of an app's request. It reports whether the app had left and its
// end came within the round trip.
func (l *lateLink) judge(a *lateApp, roundTrip time.Duration) bool {
	l.t.Helper()
	if !a.leaves {
		l.waited++
		if !await.Receive(l.t, "an app that waits is answered", a.answered) {
			l.t.Errorf("%s: refused although the app waits", a.protocol)
		}
		return false
	}
	opened := time.Time{}
	await.Until(l.t, "the request of an app that has left is dealt with", func() bool {
		l.mu.Lock()
		opened = l.opened[a.lock]
		l.mu.Unlock()
		return !opened.IsZero() || l.refused(a.lock)
	})
	if opened.IsZero() {
		l.gone++
		return true
	}
	var segments []gatewaytest.Segment
	await.Until(l.t, "the end of an app that has left arrives", func() bool {
		segments = l.Passed(a.port)
		return len(segments) > 1 && segments[len(segments)-1].End != segments[0].End
	})
	for _, s := range segments[1:] {
		if took := s.At.Sub(segments[0].At); s.End != segments[0].End {
			if took <= roundTrip {
				l.t.Errorf("%s: the door was opened %s after the request had arrived, whose app had left; its end came after %s",
					a.protocol, opened.Sub(segments[0].At), took)
			}
			break
		}
	}
	l.void++
	return false
}

// refused reports whether an unlock of the lock was refused in this round.
func (l *lateLink) refused(lock string) bool {
	for r, err := range l.p.Admin.Journal(l.t.Context(), client.JournalQuery{After: l.begun}) {
		if err != nil {
			l.t.Fatal(err)
		}
		if r.Kind == site.KindUnlock && r.Lock == lock && r.Outcome == site.Refused {
			return true
		}
	}
	return false
}

// protocols are what apps speak.
var protocols = []string{"HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2"}

// lateApp is an app with one connection.
type lateApp struct {
	l         *lateLink
	protocol  string
	lock      string
	leaves    bool
	port      uint16
	conn      *net.TCPConn
	transport *http.Transport
	base      string
	cancel    context.CancelFunc
	answered  chan bool // whether the door was opened
}

// newApp connects the app of lock i+1 and measures the round trip, by requests.
func (l *lateLink) newApp(i int) *lateApp {
	l.t.Helper()
	a := &lateApp{
		l: l, protocol: protocols[i%len(protocols)], lock: site.LockID(i + 1).String(), leaves: i%5 < 3,
		base: l.p.HTTPS, answered: make(chan bool, 1),
	}
	if a.protocol == protocols[0] {
		a.base = l.p.HTTP
	}
	a.transport = &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test's own gateway
		ForceAttemptHTTP2: a.protocol == protocols[2],
		DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
			l.Do(func() { conn, err = net.Dial(network, address) })
			if err == nil {
				a.conn = conn.(*net.TCPConn)                          //nolint:errcheck,forcetypeassert // it is one
				a.port = uint16(conn.LocalAddr().(*net.TCPAddr).Port) //nolint:errcheck,forcetypeassert,gosec // likewise
			}
			return conn, err
		},
	}
	for range 3 {
		r, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, a.base+"/healthz", http.NoBody)
		if err != nil {
			l.t.Fatal(err)
		}
		answer, err := a.transport.RoundTrip(r)
		if err != nil {
			l.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	return a
}

// ask sends the unlock.
func (a *lateApp) ask() {
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(a.l.t.Context())
	url := a.base + "/v1/stations/" + a.l.token + "/locks/" + a.lock + "/unlock"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		a.l.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.l.access)
	go func() {
		answer, err := a.transport.RoundTrip(r)
		if err != nil {
			a.answered <- false
			return
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		a.answered <- strings.Contains(string(body), `"success":true`)
	}()
}

// repeats returns how often the far kernel has sent the request again.
func (a *lateApp) repeats() (n uint8) {
	a.l.t.Helper()
	handle, err := a.conn.SyscallConn()
	if err == nil {
		err = handle.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err == nil {
				n = info.Retransmits
			}
		})
	}
	if err != nil {
		a.l.t.Fatal(err)
	}
	return n
}

// leave ends the wait: HTTP/1.1 closes the connection, HTTP/2 resets the stream.
func (a *lateApp) leave() {
	a.cancel()
	<-a.answered
}
