package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/kit"
)

const (
	eventsPath = "/local/v1/stations/" + stationToken + "/events"
	nowhere    = "00000000-0000-0000-0000-000000000000-0"
)

// feed is an open event stream of a test.
type feed struct {
	t    testing.TB
	body io.ReadCloser
	text *bufio.Reader
}

// follow opens a stream; last is its Last-Event-ID, if any.
func (w *world) follow(last string) *feed {
	w.t.Helper()
	req := w.build(request{method: "GET", path: eventsPath, bearer: accessToken})
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("got %d %v", resp.StatusCode, resp.Header)
	}
	checkAny(w.t, "GET", response{200, resp.Header, ""})
	return &feed{w.t, resp.Body, bufio.NewReader(resp.Body)}
}

// block returns the next block of lines, heartbeats left out.
func (f *feed) block() (string, error) {
	var block strings.Builder
	for {
		line, err := f.text.ReadString('\n')
		switch {
		case err != nil:
			return block.String(), err
		case line != "\n":
			block.WriteString(line)
		case block.String() == ": heartbeat\n":
			block.Reset()
		default:
			return block.String(), nil
		}
	}
}

func (f *feed) want(name, id, data string) {
	f.t.Helper()
	got, err := f.block()
	if want := fmt.Sprintf("event: %s\nid: %s\ndata: %s\n", name, id, data); err != nil || got != want {
		f.t.Fatalf("got %q (%v)\nwant %q", got, err, want)
	}
}

// wantEnd waits until the gateway ends the stream, in good order.
func (f *feed) wantEnd() {
	f.t.Helper()
	if got, err := f.block(); err != io.EOF || got != "" {
		f.t.Fatalf("got %q, %v; want the end", got, err)
	}
}

func id(number int) string { return fmt.Sprintf("%s-%d", boot, number) }

// at returns the Station object with that voltage.
func at(volts string) string { return strings.Replace(stationJSON, "3.71", volts, 1) }

func TestEvents(t *testing.T) {
	w := newWorld(t)
	w.stations.happen(stationID, 3.7)
	f := w.follow("")
	f.want("station", id(1), at("3.7"))
	w.stations.happen(hiddenStation, 3.1)
	w.stations.happen(stationID, 3.6)
	f.want("station", id(3), at("3.6"))
	w.stations.happen(stationID, 3.5)
	w.stations.happen(stationID, 3.4)
	f.want("station", id(4), at("3.5"))
	f.want("station", id(5), at("3.4"))
}

func TestEvents_beforeTheFirst(t *testing.T) {
	w := newWorld(t)
	f := w.follow("")
	f.want("station", id(0), stationJSON)
	w.stations.happen(stationID, 3.6)
	f.want("station", id(1), at("3.6"))
}

// A client that comes back gets exactly what it missed.
func TestEvents_resume(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.stations.happen(stationID, float64(i+1))
		w.stations.happen(hiddenStation, 9)
	}
	f := w.follow(id(1))
	f.want("station", id(3), at("2"))
	f.want("station", id(5), at("3"))
	w.stations.happen(stationID, 4)
	f.want("station", id(7), at("4"))

	f = w.follow(id(7))
	w.stations.happen(stationID, 5)
	f.want("station", id(8), at("5"))
	f = w.follow(id(0))
	f.want("station", id(1), at("1"))
}

// So does one whose last event is of a start of the process whose events were kept.
func TestEvents_resumeOverRestart(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.stations.happen(stationID, float64(i+1))
	}
	f := w.follow("77777777-7777-4777-8777-777777777777-2")
	f.want("station", id(3), at("3"))
}

// Many missed events come whole, however large.
func TestEvents_resumeFromFarBack(t *testing.T) {
	w := newWorld(t)
	const many = 1000
	for i := range many {
		w.stations.happen(stationID, float64(i))
	}
	f := w.follow(id(0))
	for i := range many {
		f.want("station", id(i+1), at(fmt.Sprint(i)))
	}
}

// What cannot be resumed says so, and begins with the object as it is.
func TestEvents_gap(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		w.stations.happen(stationID, 3.5)
	}
	w.stations.forget(3)
	for _, last := range []string{
		id(2), // not kept any more
		id(6), // not yet
		id(99999999),
		"55555555-5555-4555-8555-555555555555-5", // of another start
		"77777777-7777-4777-8777-777777777777-3", // after the end of an earlier one
		nowhere,
		"5", "-", "-5", string(boot), string(boot) + "-", string(boot) + "-x", string(boot) + "--5", id(5) + "5555555555555555555555",
		strings.Repeat("x", 5000),
	} {
		f := w.follow(last)
		f.want("gap", nowhere, "{}")
		f.want("station", id(5), at("3.5"))
		w.stations.forget(3)
		f.body.Close()
	}
	f := w.follow(id(3))
	f.want("station", id(4), at("3.5"))
	f.want("station", id(5), at("3.5"))
}

// A stream that falls too far behind says gap in the middle.
func TestEvents_gapWhileFollowing(t *testing.T) {
	w := newWorld(t)
	f := w.follow("")
	f.want("station", id(0), stationJSON)
	w.stations.outrun(stationID, 3.5)
	f.want("gap", nowhere, "{}")
	f.want("station", id(1), at("3.5"))
	w.stations.happen(stationID, 3.4)
	f.want("station", id(2), at("3.4"))
}

func TestEvents_refused(t *testing.T) {
	w := newWorld(t)
	w.do(request{method: "GET", path: eventsPath}).want(t, 401, message("Token is invalid"))
	for _, token := range []string{hiddenToken, unknownToken, "%00"} {
		w.do(request{method: "GET", path: "/local/v1/stations/" + token + "/events", bearer: accessToken}).
			want(t, 404, message("Station not found"))
	}
	if n := w.stations.followers(); n != 0 {
		t.Errorf("%d still subscribed", n)
	}
}

// The stream ends with the leave to have it, also while nothing happens.
func TestEvents_ends(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"session ended":    func(w *world) { w.access.with(func() { delete(w.access.tokens, accessToken) }) },
		"grant ended":      func(w *world) { w.access.with(func() { w.access.grants[account] = nil }) },
		"station removed":  func(w *world) { w.stations.remove(stationID) },
		"token replaced":   func(w *world) { w.stations.rename(stationID, "new") },
		"server is to end": func(w *world) { w.stop() },
	} {
		for _, eventful := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, event %v", name, eventful), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				f := w.follow("")
				f.want("station", id(0), stationJSON)
				end(w)
				if eventful && name != "server is to end" {
					w.stations.happen(stationID, 1) // nobody may see it any more
				}
				f.wantEnd()
				await.Until(t, "the end of the subscription", func() bool { return w.stations.followers() == 0 })
			})
		}
	}
}

// The connection serves on after a stream has ended.
func TestEvents_clientLeaves(t *testing.T) {
	w := newWorld(t)
	f := w.follow("")
	f.want("station", id(0), stationJSON)
	f.body.Close()
	await.Until(t, "the end of the subscription", func() bool { return w.stations.followers() == 0 })
	w.do(request{method: "GET", path: "/healthz"}).want(t, 200, `{"status":"ok"}`)
}

func TestEvents_boundedPerAccount(t *testing.T) {
	w := newWorld(t)
	var feeds []*feed
	for range kit.MaxStreamsPerAccount {
		f := w.follow("")
		f.want("station", id(0), stationJSON)
		feeds = append(feeds, f)
	}
	got := w.do(request{method: "GET", path: eventsPath, bearer: accessToken})
	got.want(t, 429, message("Too many streams are open"))
	if got.header.Get("Retry-After") != "30" {
		t.Errorf("%v", got.header)
	}
	feeds[0].body.Close()
	await.Until(t, "a free place", func() bool {
		resp, err := w.client.Do(w.build(request{method: "GET", path: eventsPath, bearer: accessToken}))
		if err != nil {
			t.Fatal(err)
		}
		w.t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode == http.StatusOK
	})
}

func TestEvents_boundedInAll(t *testing.T) {
	w := newWorld(t)
	for i := range kit.MaxStreams / kit.MaxStreamsPerAccount {
		who := site.AccountID(fmt.Sprint("account ", i))
		w.access.with(func() {
			w.access.tokens[accessToken] = site.Actor{Account: who}
			w.access.grants[who] = []site.StationID{stationID}
		})
		for range kit.MaxStreamsPerAccount {
			w.follow("").want("station", id(0), stationJSON)
		}
	}
	w.access.with(func() {
		w.access.tokens[accessToken] = site.Actor{Account: "one more"}
		w.access.grants["one more"] = []site.StationID{stationID}
	})
	w.do(request{method: "GET", path: eventsPath, bearer: accessToken}).want(t, 429, message("Too many streams are open"))
}

// A stream outlives the bounds that the server has for other requests.
func TestEvents_outlivesTimeouts(t *testing.T) {
	inBubble(t, func(w *world, _ pipes) {
		f := w.follow("")
		f.want("station", id(0), stationJSON)
		time.AfterFunc(2*time.Minute, func() { w.stations.happen(stationID, 3.6) }) // longer than any other request may take
		f.want("station", id(1), at("3.6"))
	})
}
