package attacktest_test

import (
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/gatewaytest"
	"gatehouse/internal/site"
)

// What stations report was written to the card every minute, in pages: hundreds of
// megabytes a day. Saving it seldom must not cost a change of a lock: after a kill the
// lock is as its station said last.
func TestAttack_lockAfterKill(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	station := p.Dial(issued.MQTT)
	for _, status := range []string{"locked", "unlocked", "jammed"} {
		station.Publish("report", []byte(`{"batteryVoltage":3.71,"locks":[{"lockId":"lock-1","status":"`+status+`"}]}`))
		p.AwaitRecord("the change to "+status, func(r site.Record) bool {
			return r.Kind == site.KindLockChanged && string(r.Status) == status
		})
	}
	p.Kill()
	p.Start()
	p.AwaitReady()
	answer := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil)
	if answer.Status != http.StatusOK || !strings.Contains(string(answer.Body), `"jammed"`) {
		t.Errorf("after the kill: %d %s", answer.Status, answer.Body)
	}
}
