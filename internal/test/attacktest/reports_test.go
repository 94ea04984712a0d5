package attacktest_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// A library sends a report of a minute ago again, behind a newer one: neither the station's
// clock nor its doors go back.
func TestAttack_oldReport(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	s := p.Dial(issued.MQTT)
	const newest = 500_000
	s.Publish("report", fmt.Appendf(nil, `{"uptime":%d,"locks":[{"lockId":"lock-1","status":"locked","door":"closed"}]}`, newest))
	began := time.Now()
	old := []byte(`{"uptime":440000,"batteryVoltage":1,"locks":[{"lockId":"lock-1","status":"locked","door":"open"}]}`)
	s.Publish("report", old)
	s.PublishAgain("report", old)
	s.PublishAgain("report", []byte(`{"locks":[{"lockId":"lock-1","door":"open"}]}`))
	check(t, s.TrySubscribe(1)) // the gateway has read what came before
	done := make(chan error, 1)
	go func() {
		_, err := p.Admin.Unlock(t.Context(), 1042, 1)
		done <- err
	}()
	c := s.Command()
	passed := time.Since(began).Milliseconds() // real time: more of it only allows a later notAfter
	ttl := (time.Duration(c.TTL) * time.Second).Milliseconds()
	if c.NotAfter < newest+ttl-1000 || c.NotAfter > newest+passed+ttl+1000 {
		t.Errorf("notAfter is %d ms after the newest report, %d ms of which have passed; the ttl is %d ms", c.NotAfter-newest, passed, ttl)
	}
	s.Result(c, "done", "unlocked")
	s.Ack(c)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	station, err := p.Admin.Station(t.Context(), 1042)
	if err != nil || station.Locks[0].Door != site.DoorClosed || station.BatteryVoltage != nil {
		t.Errorf("%+v, %v", station, err)
	}
	for _, r := range p.Records() {
		if strings.HasPrefix(string(r.Kind), "door-") {
			t.Errorf("a record %+v", r)
		}
	}
}

// A station reports seconds where the contract asks for milliseconds: in its own clock the
// deadline of a command would lie more than an hour ahead.
func TestAttack_uptimeInSeconds(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	s := p.Dial(p.Enrol(1042).MQTT)
	began := time.Now()
	p.Await("the finding about the clock", func() bool {
		age := time.Since(began) // real time: the clock of the station; it stops for no one
		s.Publish("report", fmt.Appendf(nil, `{"uptime":%d}`, 1000+int(age.Seconds())))
		status, err := p.Admin.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range status.Conditions {
			if c.Code == "station-clock" {
				return strings.Contains(c.Summary, "seconds instead of milliseconds")
			}
		}
		return false
	})
	if out, _ := p.Run("doctor"); !strings.Contains(out, "The uptime of station 1042 looks like seconds") {
		t.Errorf("doctor does not show it:\n%s", out)
	}
	go func() { _, _ = p.Admin.Unlock(t.Context(), 1042, 1) }()
	c := s.Command()
	if c.NotAfter != 0 {
		t.Errorf("notAfter is %d", c.NotAfter)
	}
	s.Result(c, "done", "unlocked")
	s.Ack(c)
}

// A station that is connected and has not subscribed to its commands is online, and an
// unlock says why it opens nothing.
func TestAttack_notSubscribed(t *testing.T) {
	t.Parallel()
	const message = "connected, but not subscribed to its commands"
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	conn, err := net.Dial("tcp", p.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &gatewaytest.Station{T: t, Conn: conn, Login: issued.MQTT, Version: 4}
	if err := s.TryConnect(); err != nil {
		t.Fatal(err)
	}
	p.AwaitOnline(1042, true)
	if out, status := p.Run("unlock", "1042", "lock-1"); status != 1 || !strings.Contains(out, message) {
		t.Errorf("unlock: %d %s", status, out)
	}
	access, _ := p.Login()
	answer := p.Do("POST", "/local/v1/stations/"+issued.StationToken+"/locks/1/unlock", access, nil)
	if !strings.Contains(string(answer.Body), `"outcome":"offline","message":"`+message+`"`) {
		t.Errorf("/local/v1: %d %s", answer.Status, answer.Body)
	}
	p.AwaitRecord("the record of the unlock", func(r site.Record) bool { return r.Outcome == site.StationGone && r.Detail == message })
	subscribed := func() bool {
		station, err := p.Admin.Station(t.Context(), 1042)
		if err != nil || station.Status != site.Online {
			t.Fatalf("%+v, %v", station, err)
		}
		return *station.Subscribed
	}
	if out, _ := p.Run("station", "show", "1042"); subscribed() || !strings.Contains(out, "online, not subscribed") {
		t.Errorf("the station is shown as %s", out)
	}
	if err := s.TrySubscribe(1); err != nil {
		t.Fatal(err)
	}
	if !subscribed() {
		t.Error("the station is not shown as subscribed")
	}
}

// A library acknowledges a command before the firmware has seen it, and the firmware refuses:
// the app is told that nothing opened, and the journal has one line for each unlock.
func TestAttack_acknowledgedAndRefused(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	s := p.Dial(issued.MQTT)
	s.Publish("report", []byte(`{"uptime":1000,"answers":"result"}`))
	access, _ := p.Login()
	for _, result := range []string{"refused", "failed", "done"} {
		success := make(chan bool, 1)
		go func() { success <- p.Unlock(access, issued.StationToken) }()
		c := s.Command()
		s.Ack(c)
		s.Result(c, result, "unknown")
		if got := <-success; got != (result == "done") {
			t.Errorf("acknowledged, then %s: success is %t", result, got)
		}
	}
	if out, _ := p.Run("journal", "--kind", "unlock"); strings.Count(out, " unlock ") != 3 || strings.Contains(out, "acknowledged") {
		t.Errorf("the journal of three unlocks:\n%s", out)
	}
}

// A library kept a report in memory over a reconnect, and sends it first; the report that follows was
// taken for one of before a restart, so that every command was past its deadline for up to an hour.
// One of before a restart of the station, from a file, makes no deadline late.
func TestAttack_keptReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		heard, kept, fresh int64 // uptimes: before the reconnection; sent first after it; and then
		reconnects         bool  // once more, in between
	}{
		"of the same run":       {90_000, 75_000, 91_000, false},
		"newer than was heard":  {90_000, 90_400, 91_000, false},
		"of the run before":     {500_000_000, 500_000_400, 500, false},
		"of a short run before": {150_000, 100_000, 20_000, false},
		"of an earlier run":     {500_000_000, 500_000_400, 500, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := gatewaytest.Exec(t, gatewaytest.Launch{})
			p.AddAccount()
			issued := p.Enrol(1042)
			report := func(uptime int64) []byte { return fmt.Appendf(nil, `{"uptime":%d}`, uptime) }
			connected := time.Now()
			before := p.Dial(issued.MQTT)
			before.Publish("report", report(c.heard))
			check(t, before.TrySubscribe(1)) // the gateway has read what came before
			if c.reconnects {
				before = p.Dial(issued.MQTT)
				before.Publish("report", report(c.fresh+time.Since(connected).Milliseconds())) // real time: the clock of the station
				check(t, before.TrySubscribe(1))
			}
			s := p.Dial(issued.MQTT)
			s.Publish("report", report(c.kept))
			began := time.Now()
			c.fresh += began.Sub(connected).Milliseconds() // real time: the clock of the station
			s.Publish("report", report(c.fresh))
			check(t, s.TrySubscribe(1))
			go func() { _, _ = p.Admin.Unlock(t.Context(), 1042, 1) }()
			command := s.Command()
			passed := time.Since(began).Milliseconds() // real time: more of it only allows a later notAfter
			ttl := (time.Duration(command.TTL) * time.Second).Milliseconds()
			if command.NotAfter < c.fresh+ttl-1000 || command.NotAfter > c.fresh+passed+ttl+1000 {
				t.Errorf("notAfter is %d ms after the fresh report, %d ms of which have passed; the ttl is %d ms", command.NotAfter-c.fresh, passed, ttl)
			}
			s.Result(command, "done", "unlocked")
		})
	}
}
