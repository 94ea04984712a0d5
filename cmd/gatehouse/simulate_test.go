package main

import (
	"strings"
	"testing"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/web/adminapi"
)

func TestBrokerOf(t *testing.T) {
	all := []adminapi.Listener{
		{Name: "http", Address: "0.0.0.0:8080"},
		{Name: "mqtt", Address: "0.0.0.0:1883"},
		{Name: "mqtts", Address: "192.0.2.1:8883", TLS: true},
	}
	for name, test := range map[string]struct {
		listeners []adminapi.Listener
		want      string
	}{
		"plain, on every address": {all, "localhost:1883"},
		"IPv6":                    {[]adminapi.Listener{{Name: "mqtt", Address: "[::]:1883"}}, "localhost:1883"},
		"only TLS":                {all[2:], ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := brokerOf(test.listeners)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestApp_membersOfCredentials(t *testing.T) {
	read := func(text string) ([]stationsim.Member, error) {
		return (&app{stdin: strings.NewReader(text)}).membersOfCredentials("-", 2)
	}
	members, err := read(`{"stationId":7,"stationToken":"t","mqtt":{"clientId":"station-7","username":"station-7","password":"SEVEN"}}
{"time":"2026-11-21T08:00:00.000Z","stationId":7,"kind":"connected"}
{"changes":[],"accounts":[],"stations":[{"stationId":8,"mqtt":{"password":"EIGHT"}},{"stationId":9,"mqtt":{"password":"NINE"}}]}`)
	if err != nil || len(members) != 3 {
		t.Fatalf("%d members, %v", len(members), err)
	}
	for i, want := range []stationsim.Member{
		{ID: 7, Locks: 2, Secret: "SEVEN"},
		{ID: 8, Locks: 2, Secret: "EIGHT"},
		{ID: 9, Locks: 2, Secret: "NINE"},
	} {
		if members[i] != want {
			t.Errorf("member %d is station %d with %q", i, members[i].ID, members[i].Secret.Reveal())
		}
	}
	for _, text := range []string{"", "{}", "no JSON", `[1]`} {
		if _, err := read(text); err == nil {
			t.Errorf("members of %q", text)
		}
	}
}
