package attacktest_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// timeServer is a machine whose time somebody else sets, as an attacker who answers NTP on a
// local network does.
type timeServer struct{ ahead atomic.Int64 }

func (s *timeServer) Wall(now time.Time) time.Time { return now.Add(time.Duration(s.ahead.Load())) }
func (s *timeServer) Synchronised() bool           { return true }
func (s *timeServer) forge(ahead time.Duration)    { s.ahead.Store(int64(ahead)) }

// Possible: an answer of a time server, wrong by 14 years for a few seconds, and one
// wrong password, which went on record at once, ended every session and every grant with
// an end, and made a certificate that was not valid before 2040; over restarts, and with
// no way out. The system's time cannot be forged for one process, so the whole gateway
// runs here, over a machine whose time the test sets.
func TestAttack_forgedTime(t *testing.T) {
	t.Parallel()
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen = []string{"127.0.0.1:0"}
	machine := &timeServer{}
	run := func() *gatewaytest.Gateway {
		return gatewaytest.RunAs(t, gateway.Config{Config: cfg, System: machine})
	}
	stop := func(g *gatewaytest.Gateway) {
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	g := run()
	g.AddAccount()
	issued := g.Enrol(1042)
	until := site.At(time.Now().AddDate(4, 0, 0))
	if _, err := g.Admin.Grant(t.Context(), gatewaytest.Email, "1042", adminapi.GrantTerms{Until: until}); err != nil {
		t.Fatal(err)
	}
	access, refresh := g.Login()
	stop(g)

	machine.forge(14 * 365 * 24 * time.Hour)
	g = run()
	wrong := g.Do(http.MethodPost, "/v1/auth/login", "", []byte(`{"email":"`+gatewaytest.Email+`","password":"wrong-password-1"}`))
	if wrong.Status != http.StatusUnauthorized {
		t.Errorf("a wrong password: %d %s", wrong.Status, wrong.Body)
	}
	g.AwaitRecord("the wrong password is on record", func(r site.Record) bool { return r.Kind == site.KindLoginFailed })
	entitled(t, g, access, refresh, issued.StationToken)
	if clock, err := g.Admin.Clock(t.Context()); err != nil || clock.Trusted || !strings.Contains(clock.Advice, "gatehouse clock accept") {
		t.Errorf("while the time is forged: %+v, %v", clock, err)
	}
	stop(g)

	machine.forge(0)
	g = run()
	entitled(t, g, access, refresh, issued.StationToken)
	if clock, err := g.Admin.Clock(t.Context()); err != nil || !clock.Trusted || clock.Floor.After(time.Now().Add(time.Hour)) {
		t.Errorf("after it: %+v, %v", clock, err)
	}
}

// entitled checks that what was given before is good: both tokens, the grant, and the
// certificate for a client with the right time.
func entitled(t *testing.T, g *gatewaytest.Gateway, access, refresh, station string) {
	t.Helper()
	if a := g.Do(http.MethodGet, "/v1/stations/"+station, access, nil); a.Status != http.StatusOK {
		t.Errorf("the station: %d %s", a.Status, a.Body)
	}
	if a := g.Do(http.MethodPost, "/v1/auth/refresh", "", []byte(`{"refreshToken":"`+refresh+`"}`)); a.Status != http.StatusOK {
		t.Errorf("refresh: %d %s", a.Status, a.Body)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(g.HTTPS, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec,noctx // only its dates count
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	leaf := conn.ConnectionState().PeerCertificates[0]
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		t.Errorf("the certificate is valid from %s to %s", leaf.NotBefore, leaf.NotAfter)
	}
}

// Possible: a floor that had been raised once stayed for ever, and with it a clock in
// the future; no command lowered it.
func TestAttack_raisedFloor(t *testing.T) {
	t.Parallel()
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen = []string{"127.0.0.1:0"}
	machine := &timeServer{}
	machine.forge(14 * 365 * 24 * time.Hour) // at the first start, where there is nothing to judge it by
	g := gatewaytest.RunAs(t, gateway.Config{Config: cfg, System: machine})
	g.AddAccount()
	issued := g.Enrol(1042)
	access, refresh := g.Login()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}

	machine.forge(0)
	g = gatewaytest.RunAs(t, gateway.Config{Config: cfg, System: machine})
	if status, err := g.Admin.Status(t.Context()); err != nil || status.Clock.Trusted || !conditionRaised(status, health.ClockAhead) {
		t.Errorf("the clock was not found ahead: %+v, %v", status, err)
	}
	ended := site.Actor{Origin: site.Admin, Session: "ended"} // while the request waited for the disk
	if err := g.Running.ResetClock(t.Context(), ended); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("an administrator whose session has ended resets the clock: %v", err)
	}
	if clock, err := g.Admin.Clock(t.Context()); err != nil || clock.Now.Before(time.Now().AddDate(13, 0, 0)) {
		t.Errorf("the clock was reset: %+v, %v", clock, err)
	}
	if _, err := g.Admin.ResetClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	entitled(t, g, access, refresh, issued.StationToken)
	g.AwaitRecord("the reset is on record", func(r site.Record) bool { return r.Kind == site.KindClockReset })
	if sessions, err := g.Admin.Sessions(t.Context(), gatewaytest.Email); err != nil || len(sessions) != 1 || sessions[0].Expires.After(time.Now().AddDate(0, 0, 31)) {
		t.Errorf("a session of the wrong time lives on: %+v, %v", sessions, err)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g = gatewaytest.RunAs(t, gateway.Config{Config: cfg, System: machine})
	if clock, err := g.Admin.Clock(t.Context()); err != nil || !clock.Trusted || clock.Now.After(time.Now().Add(time.Hour)) {
		t.Errorf("after a restart: %+v, %v", clock, err)
	}
}

func conditionRaised(status adminapi.Status, code health.Code) bool {
	for _, c := range status.Conditions {
		if c.Code == code {
			return true
		}
	}
	return false
}
