package attacktest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

// A token that may only read made other people's doors wait for seconds on one core, with
// lists of all stations over 60 connections; refusals over 200 made them wait for tenths.
// Now all that is no door has turns by caller, and waits while a door is being opened. The
// order is proven by the tests of package kit; a campaign measures.
func TestAttack_readsBesideUnlocks(t *testing.T) {
	if given := os.Getenv(unlockerVariable); given != "" {
		runUnlocker(t, given)
		return
	}
	t.Parallel()
	stations, unlocks, launch := 10, 20, gatewaytest.Launch{Env: []string{"GATEHOUSE_UNLOCK_ACCOUNT_RATE=0"}}
	if gatewaytest.Torture() {
		need.Program(t, "taskset")
		stations, unlocks, launch.Wrap = 300, 100, []string{"taskset", "-c", "0"}
	}
	p := gatewaytest.Exec(t, launch)
	p.AddAccount()
	for n := range stations {
		p.Enrol(site.StationID(100 + n))
	}
	reader, err := p.Admin.AddToken(t.Context(), adminapi.NewToken{Name: "reader", Scopes: site.Scope{Read: true}})
	if err != nil {
		t.Fatal(err)
	}
	door := p.Enrol(1)
	access, _ := p.Login()
	u := unlocker{unlocks, p.MQTT, door.MQTT, p.HTTP + "/v1/stations/" + door.StationToken + "/locks/lock-1/unlock", access}
	alone := u.start(t)
	for _, load := range []struct {
		name, method, path, bearer string
		connections                int
	}{
		{"lists", http.MethodGet, "/local/v1/stations", reader.Text, 60},
		{"many lists", http.MethodGet, "/local/v1/stations", reader.Text, 200},
		{"the begin of streams", http.MethodGet, "/local/v1/watch", reader.Text, 60},
		{"refused lists", http.MethodGet, "/local/v1/stations", "nothing", 200},
		{"refused unlocks", http.MethodPost, "/v1/stations/x/locks/1/unlock", "nothing", 200},
		{"unknown paths", http.MethodGet, "/nothing", "", 200},
	} {
		t.Run(load.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var asking sync.WaitGroup
			defer asking.Wait()
			defer stop()
			begun := make(chan struct{}, load.connections)
			for range load.connections {
				asking.Go(func() { askAgain(ctx, load.method, p.HTTP+load.path, load.bearer, begun) })
			}
			for range load.connections {
				await.Receive(t, "every connection has had an answer", begun)
			}
			beside := u.start(t)
			t.Logf("%d connections: %v; alone %v (of 100 unlocks the 50th, the 99th and the last)", load.connections, beside, alone)
			if more := beside[1] - alone[1]; gatewaytest.Torture() && more > 50*time.Millisecond {
				t.Errorf("unlocks took %s longer", more)
			}
		})
	}
}

// unlocker is a station and an app that opens its door so many times, in a process of their
// own: what loads the gateway must not delay the two that are measured.
type unlocker struct {
	Unlocks     int
	MQTT        string
	Login       adminapi.MQTTLogin
	URL, Access string
}

// unlockerVariable has a test process be an unlocker: it holds one as JSON.
const unlockerVariable = "GATEHOUSETEST_UNLOCKER"

// start runs the unlocker and returns how long the median, the 99th of 100 and the longest
// unlock took.
func (u unlocker) start(t *testing.T) (took [3]time.Duration) {
	t.Helper()
	given, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{os.Args[0], "-test.run=^TestAttack_readsBesideUnlocks$"}
	if gatewaytest.Torture() {
		args = append([]string{"taskset", "-c", "1"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), unlockerVariable+"="+string(given))
	out, err := cmd.CombinedOutput()
	if _, figures, found := strings.Cut(string(out), "took "); err != nil || !found || json.NewDecoder(strings.NewReader(figures)).Decode(&took) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return took
}

// runUnlocker is the process of an unlocker.
func runUnlocker(t *testing.T, given string) {
	t.Helper()
	var u unlocker
	if err := json.Unmarshal([]byte(given), &u); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { answerCommands(ctx, u.MQTT, u.Login) })
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	await.Until(t, "the door opens", func() bool { return unlock(ctx, transport, u.URL, u.Access) == "" })
	took := make([]time.Duration, u.Unlocks)
	for n := range took {
		began := time.Now()
		if why := unlock(ctx, transport, u.URL, u.Access); why != "" {
			t.Errorf("an unlock was lost: %s", why)
		}
		took[n] = time.Since(began).Round(100 * time.Microsecond) // real time: a campaign compares it with itself
	}
	slices.Sort(took)
	last := len(took) - 1
	figures, _ := json.Marshal([]time.Duration{took[last/2], took[last*99/100], took[last]})
	fmt.Printf("took %s\n", figures) //nolint:forbidigo // for the process that started this one
}

// askAgain sends one request after the other over one connection, and takes at most 200 kB
// of each answer. It sends once on begun after the first.
func askAgain(ctx context.Context, method, url, bearer string, begun chan<- struct{}) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	first := sync.OnceFunc(func() { begun <- struct{}{} })
	defer first()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+bearer)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			continue
		}
		var most int64 = 200_000
		if resp.ContentLength < 0 { // a stream
			most = 1000
		}
		_, _ = io.CopyN(io.Discard, resp.Body, most)
		_ = resp.Body.Close()
		first()
	}
}
