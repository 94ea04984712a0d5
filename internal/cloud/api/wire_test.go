package api_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

// The topics of the contract, section 3, to the letter.
func TestTopic(t *testing.T) {
	for leaf, want := range map[api.Leaf]string{
		api.StatusLeaf: "status", api.JournalLeaf: "journal", api.LiveLeaf: "live",
		api.ResultLeaf: "result", api.CommandLeaf: "command", api.AckLeaf: "ack",
	} {
		topic := api.Topic(gateway, leaf)
		if topic != "gateways/6f1c7a3e-0000-4000-8000-000000000000/"+want {
			t.Errorf("got %s", topic)
		}
		if a, ok := api.ParseTopic(topic); !ok || a != (api.Address{Gateway: gateway, Leaf: leaf}) {
			t.Errorf("%s reads %+v, %t", topic, a, ok)
		}
	}
	topic := api.StateTopic(gateway, 1042)
	if topic != "gateways/6f1c7a3e-0000-4000-8000-000000000000/stations/1042/state" {
		t.Errorf("got %s", topic)
	}
	if a, ok := api.ParseTopic(topic); !ok || a != (api.Address{Gateway: gateway, Leaf: api.StateLeaf, Station: 1042}) {
		t.Errorf("%s reads %+v, %t", topic, a, ok)
	}
}

func TestParseTopic_others(t *testing.T) {
	for _, topic := range []string{
		"", "gateways", "gateways/", "gateways//status", "gateways/g", "gateways/g/", "gateways/g/state", "gateways/g/statu", "gateways/g/status/x",
		"gateways/g/stations/state", "gateways/g/stations//state", "gateways/g/stations/01/state", "gateways/g/stations/x/state", "gateways/g/stations/1",
		"gateways/g/stations/1/2/state", "xgateways/g/status", "stations/1/report",
	} {
		if a, ok := api.ParseTopic(topic); ok {
			t.Errorf("%q reads %+v", topic, a)
		}
	}
}

func TestFilters(t *testing.T) {
	got := api.Filters("+")
	slices.Sort(got)
	if fmt.Sprint(got) != "[gateways/+/journal gateways/+/live gateways/+/result gateways/+/stations/+/state gateways/+/status]" {
		t.Errorf("got %s", got)
	}
}

// The payloads of the contract, to the byte.
func TestEncode(t *testing.T) {
	at := site.At(time.Date(2026, 11, 21, 8, 0, 0, 5e6, time.UTC))
	volts := 3.71
	for want, payload := range map[string]any{
		`{"status":"online","version":"1.2.3","since":"2026-11-21T08:00:00.005Z"}`: api.Status{Status: api.Online, Version: "1.2.3", Since: &at},
		`{"status":"online","boot":"b-1","journal":{"next":7}}`:                    api.Status{Status: api.Online, Boot: "b-1", Journal: &api.StatusJournal{Next: 7}},
		`{"status":"offline"}`: api.Status{Status: api.Offline},
		`{"seq":12}`:           api.Ack{Seq: 12},
		`{"seq":500,"kind":"gap","from":101,"to":500}`:                  api.NewGap(101, 500),
		`{"id":"a","outcome":"done","time":"2026-11-21T08:00:00.005Z"}`: api.Result{ID: "a", Outcome: site.Done, Time: at},
		`{"id":"a","outcome":"refused","time":"2026-11-21T08:00:00.005Z","reason":"repeated","first":{"outcome":"done","time":"2026-11-21T08:00:00.005Z"}}`: api.Result{
			ID: "a", Outcome: site.Refused, Time: at, Reason: "repeated", First: &api.First{Outcome: site.Done, Time: at},
		},
		`{"stationId":1042,"batteryVoltage":3.71,"lastConnection":"2026-11-21T08:00:00.005Z","status":"online","locks":[{"lockId":"lock-1","status":"locked","lastUpdated":null}]}`: site.StationState{
			ID: 1042, BatteryVoltage: &volts, LastConnection: at, Status: site.Online, Locks: []site.Lock{{ID: 1, Status: site.Locked}},
		},
	} {
		if got := string(api.Encode(payload)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
