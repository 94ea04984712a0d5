package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

func statuses(n int) []stationsim.Status {
	out := make([]stationsim.Status, n)
	for i := range out {
		out[i] = stationsim.Status{
			ID: site.StationID(900_001 + i), Name: fmt.Sprintf("Simulated %d", i+1), Connected: i%2 == 0,
			BatteryVoltage: 3.7, Locks: []site.LockStatus{site.Locked, site.Unlocked}, Commands: 2, Opened: 1,
			Last: stationsim.Event{
				Time: site.At(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)), Kind: stationsim.Opened, Lock: "lock-2",
			},
		}
	}
	return out
}

func TestApp_picture(t *testing.T) {
	got := strings.Join(testApp().picture("3 simulated stations on broker.test:1883", statuses(3), 120, 24), "\n")
	want := `3 simulated stations on broker.test:1883: 2 connected, 6 commands, 3 openings (Ctrl-C ends)

STATION  NAME         LINK  BATTERY  LOCKS                           OPENED  LATEST
900001   Simulated 1  up    3.70 V   lock-1 locked, lock-2 unlocked  1       09:00:00 opened lock-2
900002   Simulated 2  down  3.70 V   lock-1 locked, lock-2 unlocked  1       09:00:00 opened lock-2
900003   Simulated 3  up    3.70 V   lock-1 locked, lock-2 unlocked  1       09:00:00 opened lock-2`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever the size of the terminal, the picture fits, and says what it leaves out.
func TestApp_picture_fits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 1000}, {20, 10}, {1, 1}, {80, 4}, {80, 3}} {
		picture := testApp().picture("100 simulated stations", statuses(100), size[0], size[1])
		if len(picture) > size[1] {
			t.Errorf("%v: %d lines", size, len(picture))
		}
		for _, line := range picture {
			if utf8.RuneCountInString(line) > size[0] {
				t.Errorf("%v: %q is too wide", size, line)
			}
		}
	}
	picture := testApp().picture("100 simulated stations", statuses(100), 80, 24)
	if last := picture[len(picture)-1]; last != "… and 80 more" || len(picture) != 24 {
		t.Errorf("%d lines, the last %q: want 24, 20 of them stations", len(picture), last)
	}
}

func TestFeed_neverBlocks(t *testing.T) {
	f := newFeed()
	for range cap(f.events) + 3 {
		f.put(stationsim.Event{})
	}
	if f.lost.Load() != 3 {
		t.Errorf("%d events lost, want 3", f.lost.Load())
	}
}

func TestBrokerOf(t *testing.T) {
	all := []adminapi.Listener{
		{Name: "http", Address: "0.0.0.0:8080"},
		{Name: "mqtt", Address: "0.0.0.0:1883"},
		{Name: "mqtts", Address: "192.0.2.1:8883", TLS: true},
	}
	for name, test := range map[string]struct {
		listeners []adminapi.Listener
		tls       bool
		want      string
	}{
		"plain, on every address": {all, false, "localhost:1883"},
		"TLS":                     {all, true, "192.0.2.1:8883"},
		"IPv6":                    {[]adminapi.Listener{{Name: "mqtt", Address: "[::]:1883"}}, false, "localhost:1883"},
		"no TLS":                  {all[:2], true, ""},
		"only TLS":                {all[2:], false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := brokerOf(test.listeners, test.tls)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestWithPort(t *testing.T) {
	for address, want := range map[string]string{
		"broker.test": "broker.test:1883", "broker.test:99": "broker.test:99", "::1": "[::1]:1883", "[::1]:99": "[::1]:99", "[::1]": "[::1]:1883",
	} {
		if got := withPort(address, false); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	if got := withPort("broker.test", true); got != "broker.test:8883" {
		t.Errorf("with TLS: %s", got)
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
