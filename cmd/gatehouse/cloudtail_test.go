package main

import (
	"context"
	"strings"
	"testing"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// Records are printed in order from where the gateway's status begins, whatever overtakes.
func TestTail_receive(t *testing.T) {
	var out strings.Builder
	a := testApp()
	a.stdout = &out
	_, end := context.WithCancelCause(t.Context())
	f := &tail{app: a, end: end, places: make(map[site.GatewayID]*place)}
	for _, step := range []struct {
		leaf          api.Leaf
		payload, want string
		next          uint64
		due           bool // an acknowledgement, after a record
	}{
		{api.JournalLeaf, `{"seq":4}`, "", 0, true},
		{api.StatusLeaf, `{"since":"2026-01-01T00:00:00Z","journal":{"next":3}}`, "", 3, false},
		{api.JournalLeaf, `{"seq":3}`, "3 4", 5, true},
		{api.JournalLeaf, `{"seq":9}`, "", 5, false},
		{api.JournalLeaf, `{"seq":8,"kind":"gap","from":2,"to":8}`, "8 9", 10, true},
		{api.JournalLeaf, `{"seq":9}`, "", 10, true},
		{api.JournalLeaf, `{"seq":12}`, "", 10, false},
		{api.StatusLeaf, `{"since":"2026-01-01T00:00:00Z","journal":{"next":12}}`, "12", 13, false},
		{api.StatusLeaf, `{"since":"2026-01-02T00:00:00Z","journal":{"next":7}}`, "", 7, false},
		{api.JournalLeaf, `{"seq":7}`, "7", 8, true},
	} {
		out.Reset()
		if p := f.places["g"]; p != nil {
			p.due = false
		}
		f.receive(mqttclient.Message{Topic: api.Topic("g", step.leaf), Payload: []byte(step.payload)})
		var got []string
		for line := range strings.Lines(out.String()) {
			if record, ok := strings.CutPrefix(line, `gateways/g/journal {"seq":`); ok {
				got = append(got, record[:strings.IndexAny(record, ",}")])
			}
		}
		p := f.places["g"]
		if strings.Join(got, " ") != step.want || p.next != step.next || step.leaf == api.JournalLeaf && p.due != step.due {
			t.Errorf("%s: printed %v, next %d, due %t; want %s, %d, %t", step.payload, got, p.next, p.due, step.want, step.next, step.due)
		}
	}
}
