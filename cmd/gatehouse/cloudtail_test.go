package main

import (
	"strings"
	"testing"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// Each message is printed as it comes; records are acknowledged from where the gateway's
// status begins, up to the first that is missing.
func TestTail_receive(t *testing.T) {
	var out strings.Builder
	a := testApp()
	a.stdout = &out
	f := &tail{app: a, journals: make(map[site.GatewayID]*position)}
	for _, step := range []struct {
		leaf          api.Leaf
		payload, acks string
	}{
		{api.JournalLeaf, `{"seq":4}`, `{"seq":0}`},
		{api.StatusLeaf, `{"since":"2026-01-01T00:00:00Z","journal":{"next":3}}`, ""},
		{api.JournalLeaf, `{"seq":3}`, `{"seq":3}`},
		{api.JournalLeaf, `{"seq":9}`, ""},
		{api.JournalLeaf, `{"seq":8,"kind":"gap","from":2,"to":8}`, `{"seq":8}`},
		{api.JournalLeaf, `{"seq":9}`, `{"seq":9}`},
		{api.JournalLeaf, `{"seq":12}`, ""},
		{api.JournalLeaf, `not JSON`, ""},
		{api.StatusLeaf, `{"since":"2026-01-01T00:00:00Z","journal":{"next":12}}`, ""},
		{api.JournalLeaf, `{"seq":12}`, `{"seq":12}`},
		{api.StatusLeaf, `{"since":"2026-01-02T00:00:00Z","journal":{"next":7}}`, ""},
		{api.JournalLeaf, `{"seq":7}`, `{"seq":7}`},
	} {
		out.Reset()
		topic := api.Topic("g", step.leaf)
		f.receive(mqttclient.Message{Topic: topic, Payload: []byte(step.payload)})
		acks, err := f.acks()
		var got string
		for _, ack := range acks {
			got += string(ack.Payload)
		}
		if err != nil || got != step.acks || out.String() != topic+" "+step.payload+"\n" {
			t.Errorf("%s: printed %q, acknowledges %q, %v; want %q", step.payload, out.String(), got, err, step.acks)
		}
	}
}
