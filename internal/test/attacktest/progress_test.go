package attacktest_test

import (
	"encoding/json"
	"testing"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// journalled returns the highest seq that the application has, all before it included.
func (a *application) journalled() (highest uint64) {
	has := make(map[uint64]bool)
	for _, m := range a.on(api.JournalLeaf) {
		var r struct{ Seq uint64 }
		if json.Unmarshal(m.Payload, &r) == nil {
			has[r.Seq] = true
		}
	}
	for has[highest+1] {
		highest++
	}
	return highest
}

// status returns the newest status that has come; what is retained counts.
func (a *application) status() (newest api.Status) {
	if all := a.on(api.StatusLeaf); len(all) > 0 {
		_ = json.Unmarshal(all[len(all)-1].Payload, &newest)
	}
	return newest
}

func (a *application) acknowledge(t *testing.T, seq uint64) {
	t.Helper()
	a.publish(t, api.AckLeaf, api.Encode(api.Ack{Seq: seq}), false)
}

// An application that acknowledged only what was new to it waited for ever after a kill:
// the gateway had forgotten its last acknowledgements and sent one window of what the
// application had, again and again.
func TestAttack_forgottenAcknowledgement(t *testing.T) {
	t.Parallel()
	const window = 100
	s := newCloudSite(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_CLOUD_WINDOW=100", "GATEHOUSE_CLOUD_RECORDS_PER_SECOND=10000"}})
	acknowledged := uint64(0)
	progress := func() bool {
		has := s.app.journalled()
		if has == acknowledged {
			return false
		}
		acknowledged = has
		s.app.acknowledge(t, has)
		return true
	}
	for id := range site.StationID(window + window/2) { // fewer than are saved at once
		if _, err := s.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 2000 + id, Locks: 1}); err != nil {
			t.Fatal(err)
		}
	}
	s.Await("everything is acknowledged", func() bool {
		progress()
		status, err := s.Admin.Status(t.Context())
		return err == nil && acknowledged >= window+window/2 && status.Cloud.Delivered == acknowledged
	})
	s.Kill()
	s.Start()
	s.AwaitReady()
	// The last acknowledgements are saved seldom; where the machine was so slow that they
	// were, nothing is sent again.
	if status, err := s.Admin.Status(t.Context()); err != nil || status.Cloud.Delivered == acknowledged {
		return
	}
	s.Await("something new comes after the kill", progress)
}

// Nothing on the wire said where the record of a new application begins.
func TestAttack_lateApplication(t *testing.T) {
	t.Parallel()
	s := newCloudSite(t, gatewaytest.Launch{})
	s.Await("four records have come", func() bool { return s.app.journalled() >= 4 })
	s.app.acknowledge(t, 3)
	s.Await("the status says what is next", func() bool {
		status := s.app.status()
		return status.Journal != nil && status.Journal.Next == 4
	})
	late := newApplication(t, s.broker.URL(), s.gateway)
	s.Await("the retained status has come", func() bool { return late.status().Status != "" })
	status := late.status()
	if status.Status != api.Online || status.Boot == "" || status.Journal == nil || status.Journal.Next != 4 {
		t.Fatalf("%+v", status)
	}
	late.acknowledge(t, status.Journal.Next-1) // it was acknowledged before
	s.Await("the record that is next has come", func() bool {
		for _, m := range late.on(api.JournalLeaf) {
			var r site.Record
			if json.Unmarshal(m.Payload, &r) == nil && r.Seq == 4 {
				return true
			}
		}
		return false
	})
}
