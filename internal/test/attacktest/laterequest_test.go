package attacktest_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// A request waits with its client until its deadline is over, because the process stands
// still, or behind requests that wait for a station which does not answer, and more comes on
// the same connection later: the door stays shut. Doors opened 8 to 20 s after the tap.
func TestAttack_lateRequest(t *testing.T) {
	t.Parallel()
	l := newLateRequests(t)
	for !l.round() && !t.Failed() {
	}
	// What comes in time opens: a body in two parts, and over a short standstill.
	opens := func(what string, do func(conn net.Conn)) {
		await.Until(t, what+" opens the door", func() bool {
			conn := l.dial("tcp", strings.TrimPrefix(l.p.HTTP, "http://"))
			defer func() { _ = conn.Close() }()
			do(conn)
			return strings.Contains(l.answer(conn), `"success":true`)
		})
	}
	opens("a body in two parts", func(conn net.Conn) {
		head := strings.Replace(l.request(doorStation, 1), "Content-Length: 0", "Content-Length: 2", 1)
		l.write(conn, head+"{")
		l.write(conn, "}")
	})
	opens("a request over a short standstill", func(conn net.Conn) {
		halt(t, l.p)
		l.write(conn, l.request(doorStation, 1))
		resume(t, l.p)
	})
}

// The stations of [lateRequests].
const (
	doorStation = site.StationID(1)
	deafStation = site.StationID(2) // acknowledges nothing
	fullStation = site.StationID(3) // likewise
)

// streams is how many requests the gateway takes at once on one HTTP/2 connection.
const streams = 16

// lateRequests is a gateway with a station of many locks, each for one way to ask.
type lateRequests struct {
	t      *testing.T
	p      *gatewaytest.Program
	access string
	issued map[site.StationID]adminapi.IssuedStation
	ttl    time.Duration
}

func newLateRequests(t *testing.T) *lateRequests {
	l := &lateRequests{t: t, ttl: 2 * time.Second, issued: make(map[site.StationID]adminapi.IssuedStation)}
	l.p = gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{
		"GATEHOUSE_UNLOCK_TTL=" + l.ttl.String(), "GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0",
	}})
	l.p.AddAccount()
	l.access, _ = l.p.Login()
	for _, id := range []site.StationID{doorStation, deafStation, fullStation} {
		issued, err := l.p.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: id, Locks: streams})
		if err == nil {
			_, err = l.p.Admin.Grant(t.Context(), gatewaytest.Email, id.String(), adminapi.GrantTerms{})
		}
		if err != nil {
			t.Fatal(err)
		}
		l.issued[id] = issued
	}
	station := l.connect(doorStation)
	go func() {
		for c, err := station.NextCommand(); err == nil; c, err = station.NextCommand() {
			_ = station.TryAck(c)
		}
	}()
	return l
}

// connect has a station come online.
func (l *lateRequests) connect(id site.StationID) *gatewaytest.Station {
	l.t.Helper()
	station := l.p.Dial(l.issued[id].MQTT)
	l.p.AwaitOnline(id, true)
	return station
}

// deaf connects a station that acknowledges nothing, and returns how many commands it has.
func (l *lateRequests) deaf(id site.StationID) *atomic.Int64 {
	l.t.Helper()
	station, commands := l.connect(id), new(atomic.Int64)
	go func() {
		defer station.Close()
		for _, err := station.NextCommand(); err == nil; _, err = station.NextCommand() {
			commands.Add(1)
		}
	}()
	return commands
}

// tap is one unlock, on a connection of its own, that waits until it is too late.
type tap struct {
	name  string
	lock  site.LockID
	conn  net.Conn
	ask   func() // sends the unlock
	later func() // sends more
}

// round has each way to ask wait over the deadline. It reports false, and proves nothing, where
// the slow requests were over before the process stood still, so that a door opened in time.
func (l *lateRequests) round() bool {
	l.t.Helper()
	slow, full := l.deaf(deafStation), l.deaf(fullStation)
	var last uint64
	for _, r := range l.p.Records() {
		last = r.Seq
	}
	taps := l.taps()
	behind := l.behind()
	await.Until(l.t, "slow requests are under way", func() bool { return slow.Load() == int64(len(behind)) })
	crowded := l.crowded(full)
	for _, one := range append(behind, crowded) {
		one.ask()
	}
	l.ping(crowded.conn) // the gateway has read all that came before
	halt(l.t, l.p)
	halted := time.Now()
	for i := range taps {
		taps[i].ask()
	}
	pass(l.ttl + l.ttl/4)
	taps = append(append(taps, behind...), crowded)
	for _, one := range taps {
		one.later()
	}
	resume(l.t, l.p)
	proves := true
	for _, one := range taps {
		end := l.end(one.lock, last)
		switch {
		case end.Outcome == site.Expired:
		case end.Time.Before(halted):
			proves = false
		default:
			l.t.Errorf("%s: %s", one.name, end.Outcome)
		}
		_ = one.conn.Close()
	}
	l.p.AwaitOnline(deafStation, false)
	l.p.AwaitOnline(fullStation, false)
	return proves
}

// end waits for the record of the end of the unlock of a lock, after that record.
func (l *lateRequests) end(lock site.LockID, after uint64) site.Record {
	l.t.Helper()
	return l.p.AwaitRecord("the end of an unlock of "+lock.String(), func(r site.Record) bool {
		return r.Seq > after && r.Kind == site.KindUnlock && r.Station == doorStation && r.Lock == lock.String() && r.Outcome != site.Requested
	})
}

// taps are unlocks that are sent while the process stands still.
func (l *lateRequests) taps() []tap {
	l.t.Helper()
	plain, secure := strings.TrimPrefix(l.p.HTTP, "http://"), strings.TrimPrefix(l.p.HTTPS, "https://")
	socket := filepath.Join(l.p.Data, "admin.sock")
	all := []tap{
		l.text("alone", 1, l.idle(l.dial("tcp", plain)), false),
		l.text("HTTP/1.1", 2, l.idle(l.dial("tcp", plain)), false),
		l.text("HTTP/1.1 over TLS", 3, l.idle(l.dialTLS(secure)), false),
		l.text("the administration socket", 4, l.idle(l.dial("unix", socket)), true),
		l.text("a new connection", 5, nil, false),
		l.text("a new connection to the administration socket", 6, nil, true),
		l.stream("HTTP/2", 7, l.dialHTTP2(secure), 1),
	}
	all[0].later = func() {}
	connect := func(one *tap, network, address string, admin bool) {
		one.ask = func() {
			*one = l.text(one.name, one.lock, l.dial(network, address), admin)
			one.ask()
		}
	}
	connect(&all[4], "tcp", plain, false)
	connect(&all[5], "unix", socket, true)
	return all
}

// behind are unlocks that wait on their connection for one that is slow, and has begun.
func (l *lateRequests) behind() []tap {
	l.t.Helper()
	all := []tap{
		l.text("behind a slow request over HTTP/1.1", 8, l.idle(l.dial("tcp", strings.TrimPrefix(l.p.HTTP, "http://"))), false),
		l.text("behind a slow request over TLS", 9, l.idle(l.dialTLS(strings.TrimPrefix(l.p.HTTPS, "https://"))), false),
		l.text("behind a slow request on the administration socket", 10, l.idle(l.dial("unix", filepath.Join(l.p.Data, "admin.sock"))), true),
		l.text("pipelined", 11, l.idle(l.dial("tcp", strings.TrimPrefix(l.p.HTTP, "http://"))), false),
		l.text("pipelined over TLS", 12, l.idle(l.dialTLS(strings.TrimPrefix(l.p.HTTPS, "https://"))), false),
	}
	for i := range all {
		slow := l.request(deafStation, 1)
		if i == 2 {
			slow = l.adminRequest(deafStation, 1)
		}
		if i < 3 {
			l.write(all[i].conn, slow)
			continue
		}
		l.write(all[i].conn, slow+l.request(doorStation, all[i].lock)) // in one piece
		all[i].ask = func() {}
	}
	return all
}

// crowded is an unlock that waits for a place among those on its HTTP/2 connection, which
// belong to streams that were reset after their commands had left.
func (l *lateRequests) crowded(commands *atomic.Int64) tap {
	l.t.Helper()
	conn := l.dialHTTP2(strings.TrimPrefix(l.p.HTTPS, "https://"))
	for n := range uint32(streams) {
		frame(conn, 1, 5, 2*n+1, l.fields(fullStation, 1))
	}
	await.Until(l.t, "as many commands have left as there are places", func() bool { return commands.Load() == streams })
	for n := range uint32(streams) {
		frame(conn, 3, 0, 2*n+1, []byte{0, 0, 0, 8})
	}
	return l.stream("behind streams that were reset", 13, conn, 2*streams+1)
}

// text is a tap over HTTP/1.1. What comes later is a request of another kind.
func (l *lateRequests) text(name string, lock site.LockID, conn net.Conn, admin bool) tap {
	request := l.request(doorStation, lock)
	if admin {
		request = l.adminRequest(doorStation, lock)
	}
	return tap{
		name, lock, conn,
		func() { l.write(conn, request) },
		func() { l.write(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") },
	}
}

// stream is a tap over HTTP/2. What comes later are a PING and another stream.
func (l *lateRequests) stream(name string, lock site.LockID, conn net.Conn, id uint32) tap {
	return tap{
		name, lock, conn,
		func() { frame(conn, 1, 5, id, l.fields(doorStation, lock)) },
		func() {
			frame(conn, 6, 0, 0, make([]byte, 8))
			frame(conn, 1, 5, id+2, fields(":method", "GET", ":scheme", "https", ":path", "/healthz", ":authority", "localhost"))
		},
	}
}

func (l *lateRequests) path(id site.StationID, lock site.LockID) string {
	return "/v1/stations/" + l.issued[id].StationToken + "/locks/" + lock.String() + "/unlock"
}

// request is an unlock over HTTP/1.1.
func (l *lateRequests) request(id site.StationID, lock site.LockID) string {
	return "POST " + l.path(id, lock) + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + l.access + "\r\nContent-Length: 0\r\n\r\n"
}

// adminRequest is an unlock on the administration socket.
func (*lateRequests) adminRequest(id site.StationID, lock site.LockID) string {
	return fmt.Sprintf("POST /admin/v1/stations/%s/locks/%s/unlock HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", id, lock)
}

// fields is an unlock over HTTP/2.
func (l *lateRequests) fields(id site.StationID, lock site.LockID) []byte {
	return fields(":method", "POST", ":scheme", "https", ":path", l.path(id, lock), ":authority", "localhost", "authorization", "Bearer "+l.access)
}

func (l *lateRequests) dial(network, address string) net.Conn {
	l.t.Helper()
	conn, err := net.Dial(network, address) //nolint:noctx // on this machine
	if err != nil {
		l.t.Fatal(err)
	}
	_ = conn.SetDeadline(await.Deadline())
	return conn
}

func (l *lateRequests) dialTLS(address string, protocols ...string) net.Conn {
	l.t.Helper()
	conn := tls.Client(l.dial("tcp", address), &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}) //nolint:gosec // a test's own gateway
	if err := conn.Handshake(); err != nil {                                                                 //nolint:noctx // on this machine
		l.t.Fatal(err)
	}
	return conn
}

// dialHTTP2 returns a connection over which the gateway has answered a PING.
func (l *lateRequests) dialHTTP2(address string) net.Conn {
	l.t.Helper()
	conn := l.dialTLS(address, "h2")
	opening(conn, 64<<10)
	l.ping(conn)
	return conn
}

// ping waits until the gateway has answered a PING: it has read all that came before.
func (l *lateRequests) ping(conn net.Conn) {
	l.t.Helper()
	frame(conn, 6, 0, 0, make([]byte, 8))
	for head := make([]byte, 9); ; {
		_, err := io.ReadFull(conn, head)
		if err == nil {
			_, err = io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
		}
		if err != nil {
			l.t.Fatal(err)
		}
		if head[3] == 6 && head[4] == 1 {
			return
		}
	}
}

// idle returns a connection over which one request was answered.
func (l *lateRequests) idle(conn net.Conn) net.Conn {
	l.t.Helper()
	l.write(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	l.answer(conn)
	return conn
}

func (l *lateRequests) write(conn net.Conn, text string) {
	l.t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		l.t.Fatal(err)
	}
}

// answer returns the body of the next answer over HTTP/1.1.
func (l *lateRequests) answer(conn net.Conn) string {
	l.t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(body)
}
