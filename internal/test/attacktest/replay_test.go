package attacktest_test

import (
	"fmt"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// A client that may publish kept the replay of a good command out of the journal: one bound for
// the records of all refusals was used up by rubbish.
func TestAttack_rubbishBeforeReplay(t *testing.T) {
	t.Parallel()
	s := newCloudSite(t, gatewaytest.Launch{})
	for n := range 200 {
		s.app.publish(t, api.CommandLeaf, fmt.Append(nil, "rubbish ", n), false)
	}
	token := s.token("good")
	s.command("good", token)
	s.command("good", token)
	stale := s.sign(s.key, api.Command{ID: "stale", IssuedAt: time.Now().Add(-time.Hour)})
	s.command("stale", stale)
	for id, reason := range map[string]string{"good": "repeated", "stale": "expired"} {
		s.AwaitRecord(id+" is recorded as "+reason, func(r site.Record) bool { return r.JTI == id && r.Detail == reason })
	}
	if opened := s.station.Status().Opened; opened != 1 {
		t.Errorf("opened %d times", opened)
	}
}
