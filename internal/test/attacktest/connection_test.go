package attacktest_test

import (
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: packet ids began at 1 on each connection, so that a PUBACK which a library
// sent over the next one acknowledged the command of another lock; and the result that came there
// was lost.
func TestAttack_answersOverTheNextConnection(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	first := p.Dial(issued.MQTT)
	before, now := make(chan adminapi.Unlocked, 1), make(chan bool, 1)
	go func() {
		answer, err := p.Admin.Unlock(t.Context(), 1042, 2)
		if err != nil {
			t.Error(err)
		}
		before <- answer
	}()
	lost := first.Command()
	second := p.Dial(issued.MQTT)
	go func() { now <- p.Unlock(access, issued.StationToken) }()
	c := second.Command()
	second.Ack(lost)
	second.Result(c, "refused", "locked")
	if await.Receive(t, "the answer of the second command", now) {
		t.Error("the PUBACK of another command has acknowledged it")
	}
	second.Ack(c)
	second.Result(lost, "done", "unlocked")
	if got := await.Receive(t, "the answer of the first command", before); got.Outcome != site.Done {
		t.Errorf("the first command: outcome %s", got.Outcome)
	}
}

// A command of the cloud waits for a station that has gone; the gateway stops in time
// nevertheless, and its journal has the outcome.
func TestAttack_stopWhileACommandWaits(t *testing.T) {
	t.Parallel()
	s := newCloudSite(t, gatewaytest.Launch{})
	station := s.Dial(s.Enrol(7).MQTT)
	token, err := s.key.Sign(api.Command{
		ID: "waits", IssuedAt: time.Now(), Expires: time.Now().Add(time.Minute),
		Gateway: s.gateway, Name: api.Unlock, Station: 7, Lock: 1, Actor: "uid 0",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.app.publish(t, api.CommandLeaf, []byte(token), false)
	station.Command()
	station.Close()
	s.AwaitOnline(7, false)
	if err := s.Stop(); err != nil {
		t.Errorf("the gateway stopped with %v\n%s", err, s.Log())
	}
	s.Start()
	s.AwaitReady()
	s.AwaitRecord("the outcome", func(r site.Record) bool { return r.JTI == "waits" && r.Outcome == site.Unresolved })
}
