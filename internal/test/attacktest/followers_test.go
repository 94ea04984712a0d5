package attacktest_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/kit"
)

// followers is how many apps follow one station.
const followers = 1000

// A thousand apps follow one station over HTTPS, and one more that reads nothing keeps
// none of them waiting. They disconnect, the station changes a hundred times, and the
// gateway is restarted: each gets exactly what it missed. After a crash each is told that
// there is a gap.
func TestAttack_thousandFollowers(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{
		"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0", "GATEHOUSE_MQTT_PACKETS_PER_SECOND=1000",
		"GATEHOUSE_LOGIN_HASH_MEMORY=7MiB", "GATEHOUSE_LOGIN_HASH_TIME=1",
	}})
	p.AddAccount()
	f := &following{p: p, issued: p.Enrol(1042)}
	f.addAccounts(t)

	f.open()
	f.expect(`"offline"`)
	station := p.Dial(f.issued.MQTT)
	f.expect(`"online"`)
	silent := f.dial(0, "")
	f.report(station, 10)
	f.expectReports(10)
	_ = silent.conn.Close()
	_, most := p.Resident()
	t.Logf("%d followers: %d MB resident at most", followers, most>>20)
	if most > mostMemory {
		t.Errorf("%d MB were resident", most>>20)
	}
	f.close()

	f.report(station, 100)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	p.Start()
	p.AwaitReady()
	f.open()
	f.expectReports(100)
	f.expect(`"offline"`) // the station, when the gateway stopped
	p.Dial(f.issued.MQTT)
	f.expect(`"online"`) // nothing in between
	f.close()

	p.Kill()
	p.Start()
	p.AwaitReady()
	f.open()
	f.expect("event: gap")
	f.expect(`"offline"`)
}

// following are the followers of a station.
type following struct {
	p                  *gatewaytest.Program
	issued             adminapi.IssuedStation
	bearers            []string
	apps               [followers]*app
	reported, expected int // reports
}

// app is one follower.
type app struct {
	conn net.Conn
	text *bufio.Reader
	last string // Last-Event-ID
	err  error
}

// addAccounts adds as many accounts as the followers need, and logs them in.
func (f *following) addAccounts(t *testing.T) {
	t.Helper()
	for n := range followers/kit.MaxStreamsPerAccount + 1 {
		_, err := f.p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: person(n), Password: gatewaytest.Password})
		if err == nil {
			_, err = f.p.Admin.Grant(t.Context(), person(n), "1042", adminapi.GrantTerms{})
		}
		if err != nil {
			t.Fatal(err)
		}
		answer := f.p.Do(http.MethodPost, "/v1/auth/login", "", fmt.Appendf(nil, `{"email":%q,"password":%q}`, person(n), gatewaytest.Password))
		var tokens struct{ AccessToken string }
		if err := json.Unmarshal(answer.Body, &tokens); err != nil || answer.Status != http.StatusOK {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		f.bearers = append(f.bearers, tokens.AccessToken)
	}
}

// report has the station report another voltage that many times, and waits for the last.
func (f *following) report(station *gatewaytest.Station, times int) {
	for range times {
		f.reported++
		station.Publish("report", fmt.Appendf(nil, `{"batteryVoltage":%g}`, volts(f.reported)))
	}
	f.p.Await("the last report", func() bool {
		s, err := f.p.Admin.Station(f.p.T.Context(), site.StationID(1042))
		return err == nil && s.BatteryVoltage != nil && *s.BatteryVoltage == volts(f.reported)
	})
}

// volts returns the voltage of a report.
func volts(number int) float64 { return float64(number) / 8 }

// dial opens one stream, from an address of its own.
func (f *following) dial(n int, last string) *app {
	a := &app{last: last}
	conn, err := from(f.p.T.Context(), fmt.Sprintf("127.1.%d.%d", n/200, 1+n%200), strings.TrimPrefix(f.p.HTTPS, "https://"))
	if err != nil {
		a.err = err
		return a
	}
	a.conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // our own gateway
	_, a.err = fmt.Fprintf(a.conn, "GET /local/v1/stations/%s/events HTTP/1.1\r\nHost: 192.0.2.1\r\nAuthorization: Bearer %s\r\nLast-Event-ID: %s\r\n\r\n",
		f.issued.StationToken, f.bearers[n/kit.MaxStreamsPerAccount], last)
	return a
}

// each works for every follower, 32 at a time, and fails the test if one has failed.
func (f *following) each(what string, do func(n int, a *app) error) {
	f.p.T.Helper()
	var all sync.WaitGroup
	slots := make(chan struct{}, 32)
	for n, a := range &f.apps {
		slots <- struct{}{}
		all.Go(func() {
			if err := do(n, a); err != nil {
				f.apps[n].err = err
			}
			<-slots
		})
	}
	all.Wait()
	for n, a := range &f.apps {
		if a.err != nil {
			f.p.T.Fatalf("follower %d, %s: %v", n, what, a.err)
		}
	}
}

// open opens the stream of every follower where it was.
func (f *following) open() {
	f.p.T.Helper()
	f.each("connecting", func(n int, a *app) error {
		last := ""
		if a != nil {
			last = a.last
		}
		f.apps[n] = f.dial(n, last)
		return f.apps[n].begin()
	})
}

// begin reads the header of the answer.
func (a *app) begin() error {
	if a.err != nil {
		return a.err
	}
	_ = a.conn.SetReadDeadline(await.Deadline())
	resp, err := http.ReadResponse(bufio.NewReader(a.conn), nil) //nolint:bodyclose // its connection is closed
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err == nil {
		a.text = bufio.NewReader(resp.Body)
	}
	return err
}

func (f *following) close() {
	f.p.T.Helper()
	f.each("disconnecting", func(_ int, a *app) error { return a.conn.Close() })
}

// expectReports requires that the next events of every follower are the next reports, in
// order and without a hole.
func (f *following) expectReports(count int) {
	f.p.T.Helper()
	f.each("reading", func(_ int, a *app) error {
		for i := range count {
			event, err := a.event()
			if want := fmt.Sprintf(`"batteryVoltage":%g,`, volts(f.expected+i+1)); err != nil || !strings.Contains(event, want) {
				return fmt.Errorf("event %d of %d is %q, %v; want %s", i+1, count, event, err, want)
			}
		}
		return nil
	})
	f.expected += count
}

// expect requires that the next event of every follower contains a text.
func (f *following) expect(want string) {
	f.p.T.Helper()
	f.each("reading", func(_ int, a *app) error {
		if event, err := a.event(); err != nil || !strings.Contains(event, want) {
			return fmt.Errorf("an event is %q, %v; want %s", event, err, want)
		}
		return nil
	})
}

// event returns the next event, and takes its id.
func (a *app) event() (string, error) {
	_ = a.conn.SetReadDeadline(await.Deadline())
	var block strings.Builder
	for {
		line, err := a.text.ReadString('\n')
		if err != nil {
			return block.String(), err
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			a.last = strings.TrimSpace(id)
		}
		switch {
		case strings.HasPrefix(line, "data: "):
			block.WriteString(line)
			return block.String(), nil
		case strings.HasPrefix(line, "event: "):
			block.WriteString(line)
		}
	}
}
