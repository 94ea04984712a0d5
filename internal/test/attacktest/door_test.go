package attacktest_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// A station flaps its door, its lock and its battery as fast as it may, lies about all
// three and names locks that do not exist, while logins in its name fail: it gets a
// bounded number of records and of words in the status, and another station's door opens
// as before.
func TestAttack_flappingDoors(t *testing.T) {
	t.Parallel()
	reports := 600
	if gatewaytest.Torture() {
		reports = 60_000
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	access, _ := p.Login()
	hostile, good := p.Enrol(1), p.Enrol(2)
	wrong := hostile.MQTT
	wrong.Password = "A-WRONG-SECRET-OF-26-CHARS"
	for range 30 {
		conn, err := net.Dial("tcp", p.MQTT)
		if err != nil {
			t.Fatal(err)
		}
		if s := (&gatewaytest.Station{T: t, Conn: conn, Login: wrong, Version: 4}); s.TryConnect() == nil {
			t.Fatal("a wrong secret was accepted")
		}
		_ = conn.Close()
	}
	began := time.Now()
	door, liar := p.Dial(good.MQTT), p.Dial(hostile.MQTT)
	var reading sync.WaitGroup
	for _, s := range []*gatewaytest.Station{door, liar} {
		reading.Go(func() {
			for c, err := s.NextCommand(); err == nil; c, err = s.NextCommand() {
				_ = s.TryAck(c)
			}
		})
	}
	huge := strings.Repeat("lock-1", 200)
	for i := range reports {
		words := [][2]string{{"locked", "closed"}, {"locked", "open"}, {"unlocked", "closed"}, {"jammed", "open"}, {"unknown", "unknown"}, {huge, huge}}[i%6]
		liar.Publish("report", fmt.Appendf(nil, `{"batteryVoltage":%g,"locks":[{"lockId":"lock-1","status":%q,"door":%q},{"lockId":%q,"door":"open"},{"lockId":"lock-64","door":"open"}]}`,
			[]float64{3.1, 4.2, 60, 1e300, -1}[i%5], words[0], words[1], huge))
		if i%100 == 0 && !p.Unlock(access, good.StationToken) {
			t.Error("the other station's door did not open")
		}
	}
	liar.Publish("report", []byte(`{"locks":[{"lockId":"lock-1","status":"locked","door":"closed"}]}`))
	p.Await("the last report", func() bool {
		s, err := p.Admin.Station(t.Context(), 1)
		return err == nil && s.Locks[0].Status == site.Locked && s.Locks[0].Door == site.DoorClosed
	})
	if !p.Unlock(access, good.StationToken) { // its record comes after all of the reports
		t.Error("the other station's door did not open")
	}
	p.AwaitRecord("the alarm of the failed logins", func(r site.Record) bool { return r.Kind == site.KindRefusedOften && r.Station == 1 })
	count := map[site.Kind]int{}
	for _, r := range p.Records() {
		if r.Station == 1 {
			count[r.Kind]++
		}
	}
	minutes := int(time.Since(began)/time.Minute) + 1 // real time: more of it only allows more records
	if forced := count[site.KindDoorForced]; forced < 1 || forced > minutes {
		t.Errorf("%d records of a forced door in %d minutes", forced, minutes)
	}
	if doors := count[site.KindDoorOpened] + count[site.KindDoorClosed]; doors > 60+minutes {
		t.Errorf("%d records of the door in %d minutes", doors, minutes)
	}
	if count[site.KindRefusedOften] != 1 {
		t.Errorf("records %v: want one of the logins that failed", count)
	}
	status, err := p.Admin.Status(t.Context())
	if err != nil || !status.Ready {
		t.Fatalf("status %+v, %v", status, err)
	}
	for _, c := range status.Conditions {
		if len(c.Summary) > 400 {
			t.Errorf("the condition %s has %d bytes", c.Code, len(c.Summary))
		}
	}
	if got := p.Do("GET", "/v1/stations/"+hostile.StationToken, access, nil); strings.Contains(string(got.Body), "door") {
		t.Errorf("/v1 tells of doors: %s", got.Body)
	}
	liar.Close()
	door.Close()
	reading.Wait()
}
