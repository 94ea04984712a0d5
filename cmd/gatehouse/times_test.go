package main

import (
	"testing"
	"time"
)

func testApp() *app {
	return &app{
		now:  func() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) },
		zone: time.FixedZone("CET", 3600),
	}
}

func TestApp_past(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "0001-01-01T00:00:00Z",
		"2026-11-20T10:00:00Z":      "2026-11-20T10:00:00Z",
		"2026-11-20T10:00:00+02:00": "2026-11-20T08:00:00Z",
		"2026-11-20":                "2026-11-19T23:00:00Z", // midnight in the time zone of the site
		"2026-11-20T10:00":          "2026-11-20T09:00:00Z",
		"2026-11-20 10:00:30":       "2026-11-20T09:00:30Z",
		"24h":                       "2026-11-20T08:00:00Z",
		"90m":                       "2026-11-21T06:30:00Z",
		"7d":                        "2026-11-14T08:00:00Z",
		"2w":                        "2026-11-07T08:00:00Z",
	} {
		got, err := testApp().past("since", text)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q is %s, %v; want %s", text, got.UTC().Format(time.RFC3339), err, want)
		}
	}
}

func TestApp_future(t *testing.T) {
	got, err := testApp().future("until", "8h")
	if want := "2026-11-21T16:00:00Z"; err != nil || got.UTC().Format(time.RFC3339) != want {
		t.Errorf("8h is %s, %v; want %s", got, err, want)
	}
}

func TestApp_past_refuses(t *testing.T) {
	for _, text := range []string{
		"yesterday", "24", "-24h", "-7d", "1.5d", "7dd", "d", "99999d", "65535w", "999999999999h", "2026-13-01", "2026-11-20T25:00:00Z", "10:00", " ",
	} {
		if got, err := testApp().past("since", text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}
