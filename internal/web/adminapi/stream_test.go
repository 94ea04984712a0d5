package adminapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
	"gatehouse/internal/web/kit"
)

func TestHandler_journal(t *testing.T) {
	h := open(t)
	h.journal.write(600, 7)
	var seqs []uint64
	for r, err := range h.serve().Journal(t.Context(), client.JournalQuery{}) {
		h.must(err)
		seqs = append(seqs, r.Seq)
	}
	if len(seqs) != 600 || seqs[0] != 1 || seqs[599] != 600 {
		t.Errorf("%d records came", len(seqs))
	}
	for _, q := range h.journal.queries {
		if q.Limit > 256 {
			t.Errorf("%d records were read at once", q.Limit)
		}
	}
}

func TestHandler_journalLine(t *testing.T) {
	h := open(t)
	h.journal.write(1, 7)
	got := h.do("GET", "/admin/v1/journal", "")
	h.want(got, 200, `{"seq":1,"time":"2026-01-01T00:00:01.000Z","clockTrusted":false,"boot":"","kind":"unlock","station":7}`)
	if got.header.Get("Content-Type") != "application/x-ndjson" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("header: %v", got.header)
	}
	h.want(h.do("GET", "/admin/v1/journal?after=1", ""), 200, "")
}

func TestHandler_journalQuery(t *testing.T) {
	h := open(t)
	h.journal.write(600, 7)
	since, until := time.Date(2026, 1, 1, 0, 1, 0, 5e6, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	query := client.JournalQuery{
		After: 3, Since: since, Until: until, Station: 7, Kinds: []site.Kind{site.KindUnlock, site.KindLogin}, Limit: 300,
	}
	count := 0
	for r, err := range h.serve().Journal(t.Context(), query) {
		h.must(err)
		if count++; r.Time.Before(since) {
			t.Errorf("record %d came", r.Seq)
		}
	}
	if count != 300 {
		t.Errorf("%d records came", count)
	}
	q := h.journal.queries[0]
	if q.AfterSeq != 3 || !q.Since.Equal(since) || !q.Until.Equal(until) || q.Station != 7 || len(q.Kinds) != 2 || q.Kinds[1] != site.KindLogin {
		t.Errorf("asked for %+v", q)
	}
}

func TestHandler_journalBadQuery(t *testing.T) {
	h := open(t)
	for query, want := range map[string]string{
		"after=-1":             `\"-1\" is no good value of \"after\"`,
		"since=yesterday":      `\"yesterday\" is no good value of \"since\"`,
		"until=1":              `\"1\" is no good value of \"until\"`,
		"station=x":            `\"x\" is no good value of \"station\"`,
		"limit=99999999999":    `\"99999999999\" is no good value of \"limit\"`,
		"follow=perhaps":       `\"perhaps\" is no good value of \"follow\"`,
		"limit=1&limit=2":      `\"limit\" is in the query twice`,
		"colour=red":           `The query has no \"colour\": it knows after, before, since, until, station, account, kind, limit, tail, follow and csv`,
		"tail=-1":              `\"-1\" is no good value of \"tail\"`,
		"account=x":            `\"x\" is no good value of \"account\"`,
		"limit=1&tail=1":       `\"limit\" and \"tail\" do not go together`,
		"csv=true&tail=1":      `\"csv\" goes with neither \"follow\" nor \"tail\"`,
		"follow=true&before=2": `\"follow\" and \"before\" do not go together`,
		"follow=true&until=" + "2026-01-01T00:00:00Z": `\"follow\" and \"until\" do not go together`,
	} {
		h.want(h.do("GET", "/admin/v1/journal?"+query, ""), 400, `{"message":"`+want+`"}`)
	}
	if len(h.journal.queries) != 0 {
		t.Error("the journal was read")
	}
}

// The newest records come after a line that says how many they are; what follows comes
// behind them.
func TestHandler_journalTail(t *testing.T) {
	h := open(t)
	h.journal.write(600, 7)
	seqs := func(query string) string {
		var all []string
		for line := range strings.Lines(h.do("GET", "/admin/v1/journal?"+query, "").body) {
			all = append(all, seqOf(t, line))
		}
		return strings.Join(all, " ")
	}
	for query, want := range map[string]string{
		"tail=3":                             "3@600 598 599 600",
		"tail=2&before=10":                   "2@600 8 9",
		"tail=5&before=3":                    "2@600 1 2",
		"tail=5&after=598":                   "2@600 599 600",
		"tail=5&account=nobody@example.test": "0@600",
	} {
		if got := seqs(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	lines := h.lines("/admin/v1/journal?tail=2&follow=true")
	for i, want := range []string{"2@600", "599", "600", "601", "602"} {
		if i == 3 {
			h.journal.write(2, 7)
		}
		if line := <-lines; seqOf(t, line) != want {
			t.Errorf("line %d is %q, want %s", i, line, want)
		}
	}
}

func TestHandler_journalTable(t *testing.T) {
	h := open(t)
	h.journal.write(600, 7)
	lines := strings.Split(h.do("GET", "/admin/v1/journal?csv=true&after=598", "").body, "\r\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "seq,time,") || !strings.HasPrefix(lines[1], "599,2026-") || !strings.HasPrefix(lines[2], "600,2026-") {
		t.Errorf("the table is %q", lines)
	}
	if lines = strings.Split(h.do("GET", "/admin/v1/journal?csv=true&after=600", "").body, "\r\n"); len(lines) != 2 {
		t.Errorf("the table of no record is %q", lines)
	}
}

// seqOf returns the seq of a line of the journal, or the count and the last seq of its
// start.
func seqOf(t *testing.T, line string) string {
	t.Helper()
	var at struct{ Seq, Count, Last uint64 }
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	if at.Seq == 0 {
		return fmt.Sprintf("%d@%d", at.Count, at.Last)
	}
	return strconv.FormatUint(at.Seq, 10)
}

func TestHandler_journalFollow(t *testing.T) {
	h := open(t)
	h.journal.write(3, 7)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := uint64(0)
	for r, err := range h.serve().Journal(ctx, client.JournalQuery{Follow: true}) {
		h.must(err)
		if next++; r.Seq != next {
			t.Fatalf("record %d came in place of %d", r.Seq, next)
		}
		switch next {
		case 3:
			h.journal.write(2, 7)
		case 5:
			await.Until(t, "the stream follows", func() bool { return h.journal.followers() == 1 })
			h.journal.write(400, 7)
		case 405:
			cancel()
		}
	}
	if next != 405 {
		t.Errorf("%d records came", next)
	}
	await.Until(t, "the stream has ended", func() bool { return h.journal.followers() == 0 })
}

// A follower of one station does not look through the others' records again.
func TestHandler_journalFollowSkips(t *testing.T) {
	h := open(t)
	h.journal.write(100, 8)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, got := h.serve(), make(chan uint64, 1)
	go func() {
		for r, err := range c.Journal(ctx, client.JournalQuery{Follow: true, Station: 7}) {
			if err != nil {
				t.Error(err)
			}
			got <- r.Seq
			cancel()
		}
		close(got)
	}()
	await.Until(t, "the stream follows", func() bool { return h.journal.followers() == 1 && h.journal.asked() == 1 })
	h.journal.write(1, 7)
	for seq := range got {
		if seq != 101 {
			t.Errorf("record %d came", seq)
		}
	}
	if q := h.journal.queries[1]; q.AfterSeq != 100 {
		t.Errorf("read again from %d", q.AfterSeq)
	}
}

func (b *book) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queries)
}

// A follower with a limit ends when it has them.
func TestHandler_journalFollowLimit(t *testing.T) {
	h := open(t)
	h.journal.write(5, 7)
	count := 0
	for _, err := range h.serve().Journal(t.Context(), client.JournalQuery{Follow: true, Limit: 5}) {
		h.must(err)
		count++
	}
	if count != 5 {
		t.Errorf("%d records came", count)
	}
}

func TestHandler_journalFails(t *testing.T) {
	h := open(t)
	h.journal.write(300, 7)
	h.journal.fail = func(journal.Query) error { return fault.New(fault.Unavailable, "The storage fails") }
	h.want(h.do("GET", "/admin/v1/journal", ""), 503, `{"message":"The storage fails"}`)
	h.journal.fail = func(q journal.Query) error {
		if q.AfterSeq > 0 {
			return fault.New(fault.Unavailable, "The storage fails")
		}
		return nil
	}
	got := h.do("GET", "/admin/v1/journal", "")
	if got.status != 200 || !strings.HasSuffix(got.body, "}\n"+`{"message":"The storage fails"}`+"\n") {
		t.Errorf("%d …%s", got.status, got.body[max(0, len(got.body)-200):])
	}
	count := 0
	for _, err := range h.serve().Journal(t.Context(), client.JournalQuery{}) {
		if count++; count > 256 && (!fault.Is(err, fault.Unavailable) || fault.Sentence(err) != "The storage fails") {
			t.Errorf("got %v", err)
		}
	}
	if count != 257 {
		t.Errorf("%d items came", count)
	}
}

// maxUserStreams is how many streams one user of this machine may have.
const maxUserStreams = 32

// The number of streams of a user is bounded, whatever another one has; a free slot is
// used again.
func TestHandler_tooManyStreams(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(adminapi.PeerContext(t.Context(), 0, 0, 1, 1))
	var open sync.WaitGroup
	for range maxUserStreams {
		open.Go(func() {
			r := httptest.NewRequestWithContext(ctx, "GET", "/admin/v1/journal?follow=true", http.NoBody)
			h.send(adminapi.Socket, r)
		})
	}
	await.Until(t, "all streams are open", func() bool { return h.journal.followers() == maxUserStreams })
	for _, path := range []string{"/journal", "/stations/watch"} {
		got := h.do("GET", "/admin/v1"+path, "")
		h.want(got, 429, `{"message":"Too many streams are open"}`)
		if got.header.Get("Retry-After") != "30" {
			t.Error("no Retry-After")
		}
	}
	other := adminapi.PeerContext(t.Context(), 1, 1, 1, adminapi.NoGroup)
	h.want(h.send(adminapi.Socket, httptest.NewRequestWithContext(other, "GET", "/admin/v1/journal", http.NoBody)), 200, "")
	cancel()
	open.Wait()
	h.want(h.do("GET", "/admin/v1/journal", ""), 200, "")
}

// One administrator takes a share of the streams on the web, and none of the socket's.
func TestHandler_streamsOfOneAccount(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	h.addAccount(porter, true)
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	follow := func(email string) *http.Request {
		r := h.web("GET", "/admin/v1/journal?follow=true", "Bearer "+h.token(email))
		return r.WithContext(ctx)
	}
	for range kit.MaxStreamsPerAccount {
		r := follow(chief)
		open.Go(func() { h.send(adminapi.Web, r) })
	}
	await.Until(t, "all streams are open", func() bool { return h.journal.followers() == kit.MaxStreamsPerAccount })
	h.want(h.send(adminapi.Web, follow(chief)), 429, `{"message":"Too many streams are open"}`)
	h.want(h.send(adminapi.Web, h.web("GET", "/admin/v1/journal", "Bearer "+h.token(porter))), 200, "")
	h.want(h.do("GET", "/admin/v1/journal", ""), 200, "")
}

// An unlock reads its body to the end and asks whether the client still waits.
func TestHandler_unlockExchange(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	h.addStation(1042)
	before := time.Now()
	r := h.web("POST", "/admin/v1/stations/1042/locks/1/unlock", "Bearer "+h.token(chief))
	body := strings.NewReader("{}")
	r.Body = io.NopCloser(body)
	got := h.send(adminapi.Web, r)
	seen := h.unlocker.seen[0]
	if got.status != 200 || body.Len() > 0 {
		t.Errorf("an unlock: %d, %d bytes unread", got.status, body.Len())
	}
	if seen.Client == nil || seen.Accepted.Before(before) || seen.Accepted.After(time.Now()) {
		t.Errorf("it was asked for as %+v", seen)
	}
}

// A server that is shut down does not wait for its streams.
func TestNewServer_shutdown(t *testing.T) {
	h := open(t)
	h.addStation(7)
	server := h.api.NewServer(h.kit)
	c := h.serveWith(server)
	h.journal.write(1, 7)
	var last error
	for _, err := range c.Journal(t.Context(), client.JournalQuery{Follow: true}) {
		if last = err; err == nil {
			go func() { h.must(server.Shutdown(context.WithoutCancel(t.Context()))) }()
		}
	}
	if !fault.Is(last, fault.Unavailable) || !strings.Contains(fault.Sentence(last), "The gateway is being stopped") {
		t.Errorf("got %v", last)
	}
}

// What is cut off says so, so that it is not mistaken for the whole.
func TestHandler_journalCutOff(t *testing.T) {
	h := open(t)
	h.journal.write(600, 7)
	h.kit.Drain()
	got := h.do("GET", "/admin/v1/journal", "")
	if lines := strings.Split(strings.TrimSpace(got.body), "\n"); len(lines) != 257 || lines[256] != `{"message":"The gateway is being stopped"}` {
		t.Errorf("%d lines, the last %s", len(lines), lines[len(lines)-1])
	}
}

func TestHandler_watch(t *testing.T) {
	h := open(t)
	h.addStation(7)
	h.addStation(8)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	for s, err := range h.serve().Watch(ctx) {
		h.must(err)
		switch {
		case s.ID == 0:
			seen = append(seen, fmt.Sprintf("%d from %t", s.Count, !s.Time.IsZero()))
		case s.Removed:
			seen = append(seen, fmt.Sprintf("%d removed", s.ID))
		case s.BatteryVoltage != nil:
			seen = append(seen, fmt.Sprintf("%d %s %d %g", s.ID, s.Name, len(s.Locks), *s.BatteryVoltage))
		default:
			seen = append(seen, fmt.Sprintf("%d %s %d", s.ID, s.Name, len(s.Locks)))
		}
		switch len(seen) {
		case 3:
			h.report(8, []byte(`{"batteryVoltage":3.5}`))
		case 4:
			h.addStation(9)
		case 5:
			if got := h.do("PATCH", "/admin/v1/stations/9", `{"name":"South"}`); got.status != 200 {
				t.Fatal(got)
			}
		case 6:
			h.want(h.do("DELETE", "/admin/v1/stations/7", ""), 204, "")
		case 7:
			cancel()
		}
	}
	if got, want := strings.Join(seen, "; "), "2 from true; 7 North 2; 8 North 2; 8 North 2 3.5; 9 North 2; 9 South 2; 7 removed"; got != want {
		t.Errorf("saw %s, want %s", got, want)
	}
}

// lines returns the lines of a stream until the test ends.
func (h *house) lines(path string) <-chan string {
	h.t.Helper()
	ctx, cancel := context.WithCancel(adminapi.PeerContext(h.t.Context(), 0, 0, 1, 1))
	pipe, end := io.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		h.handler(adminapi.Socket).ServeHTTP(&pipeWriter{end, http.Header{}}, httptest.NewRequestWithContext(ctx, "GET", path, http.NoBody))
		_ = end.Close()
	})
	out := make(chan string)
	done.Go(func() {
		for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
			select {
			case out <- scanner.Text():
			case <-ctx.Done():
			}
		}
	})
	h.t.Cleanup(func() { cancel(); _ = pipe.Close(); done.Wait() })
	return out
}

func (h *house) contains(line, part string) {
	h.t.Helper()
	if !strings.Contains(line, part) {
		h.t.Errorf("got %s, want %s", line, part)
	}
}

// pipeWriter is a response that is read while it is written.
type pipeWriter struct {
	*io.PipeWriter
	header http.Header
}

func (w *pipeWriter) Header() http.Header { return w.header }
func (w *pipeWriter) WriteHeader(int)     {}
func (w *pipeWriter) Flush()              {}

// After a gap every station is sent anew, and events go on after it.
func TestHandler_watchGap(t *testing.T) {
	h := open(t)
	h.addStation(7)
	h.addStation(8)
	lines := h.lines("/admin/v1/stations/watch")
	h.contains(<-lines, `,"count":2}`)
	h.contains(<-lines, `{"stationId":7,`)
	for i := range 5000 { // more than are remembered, while nobody reads the stream
		h.report(8, fmt.Appendf(nil, `{"batteryVoltage":3.%d}`, i%10))
	}
	north, started, again := "", 0, 0
	for !strings.Contains(north, "3.9") || again == 0 {
		switch line := <-lines; {
		case strings.Contains(line, `,"count":2}`):
			started++
		case strings.Contains(line, `{"stationId":7,`):
			again++ // though it has not changed
		default:
			north = line
		}
	}
	if started != again {
		t.Errorf("%d starts with %d repetitions", started, again)
	}
	h.report(7, []byte(`{"batteryVoltage":3.6}`))
	for !strings.Contains(<-lines, `{"stationId":7,"batteryVoltage":3.6`) {
		continue // what was sent before
	}
}

func TestHandler_verify(t *testing.T) {
	h := open(t)
	h.want(h.do("GET", "/admin/v1/journal/verify", ""), 200, `{"sound":true,"records":7,"first":1,"last":7}`)
	h.journal.verify = func(context.Context) (journal.Verdict, error) {
		return journal.Verdict{Records: 3, First: 1, Last: 7, Broken: 4, Why: "record 4 was changed"}, nil
	}
	h.want(h.do("GET", "/admin/v1/journal/verify", ""), 200, `{"sound":false,"records":3,"first":1,"last":7,"broken":4,"why":"record 4 was changed"}`)
	h.journal.verify = func(context.Context) (journal.Verdict, error) { return journal.Verdict{}, errors.New("disk") }
	h.want(h.do("GET", "/admin/v1/journal/verify", ""), 500, `{"message":"Internal error"}`)
}

func TestHandler_database(t *testing.T) {
	h := open(t)
	h.want(h.do("GET", "/admin/v1/database", ""), 200,
		`{"size":65536,"log":4152,"schema":5,"first":1,"last":7}`)
}

func TestHandler_verifyOneAtATime(t *testing.T) {
	h := open(t)
	begun, release := make(chan struct{}), make(chan struct{})
	h.journal.verify = func(context.Context) (journal.Verdict, error) {
		close(begun)
		<-release
		return journal.Verdict{}, nil
	}
	first := make(chan answer)
	go func() { first <- h.do("GET", "/admin/v1/journal/verify", "") }()
	<-begun
	h.want(h.do("GET", "/admin/v1/journal/verify", ""), 429, `{"message":"The database or its journal is being checked already"}`)
	close(release)
	if got := <-first; got.status != 200 {
		t.Errorf("the first got %d", got.status)
	}
}

// pipeListener hands out in-memory connections, for tests in a bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble serves the API over in-memory connections and returns one.
func inBubble(t *testing.T, run func(h *house, conn net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		l := &pipeListener{make(chan net.Conn), make(chan struct{})}
		server := h.api.NewServer(h.kit)
		server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return adminapi.PeerContext(ctx, 0, 0, 1, 1)
		}
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		near, far := net.Pipe()
		l.conns <- far
		run(h, near)
		_ = near.Close()
		_ = server.Close()
		<-ended
	})
}

const followRequest = "GET /admin/v1/journal?follow=true HTTP/1.1\r\nHost: x\r\n\r\n"

// An idle stream shows every 15 s that it lives.
func TestHandler_streamPulse(t *testing.T) {
	inBubble(t, func(h *house, conn net.Conn) {
		start := time.Now()
		_, err := io.WriteString(conn, followRequest)
		h.must(err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // it would wait for an end that does not come
		h.must(err)
		var pulses [3]byte
		_, err = io.ReadFull(resp.Body, pulses[:])
		h.must(err)
		if string(pulses[:]) != "\n\n\n" || time.Since(start) != 45*time.Second {
			h.t.Errorf("got %q after %s", pulses, time.Since(start))
		}
	})
}

// A peer that stops reading holds its stream no longer than 10 s.
func TestHandler_streamStalled(t *testing.T) {
	inBubble(t, func(h *house, conn net.Conn) {
		h.journal.write(5000, 7)
		_, err := io.WriteString(conn, followRequest)
		h.must(err)
		synctest.Wait()
		if h.journal.followers() != 1 {
			h.t.Fatal("the stream has not begun")
		}
		time.Sleep(11 * time.Second) // of the bubble's clock
		synctest.Wait()
		if h.journal.followers() != 0 {
			h.t.Error("the stalled stream is still there")
		}
	})
}

// A stream over HTTPS ends within a second of whatever ended its caller's right to it, with
// a line that says so, and what comes after that is not in it.
func TestHandler_streamRevoked(t *testing.T) {
	for name, end := range map[string]func(h *house) error{
		"revoked": func(h *house) error {
			_, err := h.access.RevokeAccount(h.t.Context(), site.Actor{}, chief)
			return err
		},
		"removed": func(h *house) error { return h.access.RemoveAccount(h.t.Context(), site.Actor{}, chief) },
		"demoted": func(h *house) error { return h.access.SetAdmin(h.t.Context(), site.Actor{}, chief, false) },
	} {
		for _, path := range []string{"/admin/v1/journal?follow=true", "/admin/v1/stations/watch"} {
			synctest.Test(t, func(t *testing.T) {
				h := open(t)
				h.addAccount(chief, true)
				h.addStation(7)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Header.Set("Authorization", "Bearer "+h.token(chief))
				w, ended := httptest.NewRecorder(), make(chan time.Time, 1)
				go func() {
					h.handler(adminapi.Web).ServeHTTP(w, r)
					ended <- time.Now()
				}()
				<-time.After(10 * time.Second)
				h.must(end(h))
				began := time.Now()
				h.addStation(8)
				h.journal.write(1, 8)
				if took := (<-ended).Sub(began); took > time.Second {
					t.Errorf("%s %s: it ended after %s", name, path, took)
				}
				if text := w.Body.String(); strings.Contains(text, ":8,") || !strings.HasSuffix(text, `{"message":"Token is invalid"}`+"\n") {
					t.Errorf("%s %s: the stream is %s", name, path, text)
				}
			})
		}
	}
}
