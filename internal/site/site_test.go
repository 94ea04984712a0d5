package site_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
)

func TestParseStationID(t *testing.T) {
	for text, want := range map[string]site.StationID{"1": 1, "1042": 1042, "2147483647": site.MaxStationID} {
		got, err := site.ParseStationID(text)
		if err != nil || got != want || got.String() != text || !got.Valid() {
			t.Errorf("%q: %d, %v", text, got, err)
		}
		if back, err := site.ParseClientID(got.ClientID()); err != nil || back != want {
			t.Errorf("client id %q: %d, %v", got.ClientID(), back, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "+1", "01", "2147483648", "1e3", "1 ", "٣", strings.Repeat("9", 99)} {
		if id, err := site.ParseStationID(text); err == nil {
			t.Errorf("%q was read as %d", text, id)
		}
		if id, err := site.ParseClientID("station-" + text); err == nil {
			t.Errorf("client id of %q was read as %d", text, id)
		}
	}
	if _, err := site.ParseClientID("1042"); err == nil {
		t.Error("a client id without prefix was read")
	}
}

func TestParseLockID(t *testing.T) {
	for text, want := range map[string]site.LockID{"lock-1": 1, "1": 1, "lock-64": 64, "64": 64} {
		if got, err := site.ParseLockID(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "lock-0", "65", "lock-", "lock-01", "Lock-1", "lock--1", "lock-lock-1", "+1", "1.0"} {
		if id, err := site.ParseLockID(text); err == nil {
			t.Errorf("%q was read as %d", text, id)
		}
	}
}

func TestParseEmail(t *testing.T) {
	for text, want := range map[string]site.Email{" Porter@Example.TEST ": "porter@example.test", "a.b+c@d.test": "a.b+c@d.test"} {
		if got, err := site.ParseEmail(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "porter", "@example.test", "a@", "Porter <a@b.test>", "a@b.test, c@d.test", "a b@c.test", strings.Repeat("a", 250) + "@b.test", "a@b.test\n", "\x00@b.test"} {
		if got, err := site.ParseEmail(text); err == nil && string(got) != strings.TrimSpace(text) {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}

func TestSecret_isNeverPrinted(t *testing.T) {
	const clear = "hunter2-hunter2"
	s := struct {
		S   site.Secret
		P   *site.Secret
		All []site.Secret
	}{S: clear, All: []site.Secret{clear}}
	p := site.Secret(clear)
	s.P = &p
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", s.S)
		fmt.Fprintf(&out, verb+"\n", s.All)
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(data)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s.S, "all", s, "p", s.P)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s.S, "all", s, "p", s.P)
	if strings.Contains(out.String(), clear) || strings.Contains(out.String(), fmt.Sprintf("%x", clear)) {
		t.Errorf("printed in clear: %s", out.String())
	}
	if s.S.Reveal() != clear {
		t.Error("Reveal does not reveal")
	}
	var in site.Secret
	if err := json.Unmarshal([]byte(`"in"`), &in); err != nil || in.Reveal() != "in" {
		t.Errorf("%v", err)
	}
}

func TestTimestamp_JSON(t *testing.T) {
	zone := time.FixedZone("x", 2*3600)
	for want, at := range map[string]site.Timestamp{
		`"2026-01-02T01:04:05.006Z"`: site.At(time.Date(2026, 1, 2, 3, 4, 5, 6_999_999, zone)),
		`"2026-01-02T03:04:05.000Z"`: site.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		`null`:                       {},
	} {
		data, err := json.Marshal(at)
		if err != nil || string(data) != want {
			t.Errorf("%s, %v; want %s", data, err, want)
		}
		var back site.Timestamp
		if err := json.Unmarshal(data, &back); err != nil || !back.Equal(at.Time) {
			t.Errorf("%s came back as %v, %v", data, back, err)
		}
	}
	if got := (site.Timestamp{}).String(); got != "never" {
		t.Errorf("zero: %q", got)
	}
	var bad site.Timestamp
	if err := json.Unmarshal([]byte(`"yesterday"`), &bad); err == nil {
		t.Error("yesterday was read")
	}
}

func TestSchedule_Covers(t *testing.T) {
	// 2026-01-05 is a Monday.
	day := func(weekday int, clock string) time.Time {
		at, err := time.Parse("2006-01-02 15:04", fmt.Sprintf("2026-01-%02d %s", 4+weekday, clock))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	const sun, mon, fri, sat = 7, 1, 5, 6
	for _, c := range []struct {
		hours string
		at    time.Time
		want  bool
	}{
		{"", day(sun, "03:00"), true},
		{"Mon-Fri 08:00-18:00", day(mon, "08:00"), true},
		{"Mon-Fri 08:00-18:00", day(mon, "07:59"), false},
		{"Mon-Fri 08:00-18:00", day(fri, "17:59"), true},
		{"Mon-Fri 08:00-18:00", day(fri, "18:00"), false},
		{"Mon-Fri 08:00-18:00", day(sat, "12:00"), false},
		{"Mon-Fri 08:00-18:00, Sat 10:00-14:00", day(sat, "12:00"), true},
		{"Mon-Sun 00:00-24:00", day(sun, "23:59"), true},
		{"Fri-Mon 10:00-11:00", day(sun, "10:30"), true},
		{"Fri-Mon 10:00-11:00", day(2, "10:30"), false},
		{"Fri 22:00-06:00", day(fri, "23:00"), true},
		{"Fri 22:00-06:00", day(sat, "05:59"), true},
		{"Fri 22:00-06:00", day(sat, "06:00"), false},
		{"Fri 22:00-06:00", day(fri, "05:00"), false},
		{"sun 09:00-10:00", day(sun, "09:30"), true},
		{"09:00-10:00", day(sun, "09:30"), true},
		{"22:00-06:00", day(mon, "05:59"), true},
		{"none", day(sun, "00:00"), false},
	} {
		s, err := site.ParseSchedule(c.hours)
		if err != nil {
			t.Fatal(err)
		}
		if g := (site.Grant{Terms: site.Terms{Hours: s}}); g.Covers(c.at, time.UTC, nil) != c.want {
			t.Errorf("%q at %s: want %v", c.hours, c.at.Format("Mon 15:04"), c.want)
		}
	}
}

func TestParseSchedule_refuses(t *testing.T) {
	for _, text := range []string{
		"Mon", "None", "none, Mon 08:00-18:00", "Mon 8:00-18:00", "Mon 08:00", "Mon 08:00-08:00", "Mon 24:00-25:00", "Mon 24:00-06:00",
		"Mon 08:60-09:00", "Noday 08:00-09:00", "Mon-Noday 08:00-09:00", "Mon 08:00-18:00,", "Mon 08:00-18:00 x", "Mon ab:cd-ef:gh",
		strings.Repeat("Mon 08:00-09:00,", 16) + "Mon 08:00-09:00",
	} {
		if s, err := site.ParseSchedule(text); err == nil {
			t.Errorf("%q was read as %q", text, s)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	f.Add("Mon-Fri 08:00-18:00, Sat 22:00-06:00")
	f.Add("Sun-Sat 00:00-24:00")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := site.ParseSchedule(text)
		if err != nil {
			return
		}
		again, err := site.ParseSchedule(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q became %q, then %q, %v", text, s, again, err)
		}
	})
}

func TestGrant_Covers(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	hours, err := site.ParseSchedule("Mon 13:00-15:00")
	if err != nil {
		t.Fatal(err)
	}
	berlin := time.FixedZone("CEST", 2*3600)
	for name, c := range map[string]struct {
		grant site.Grant
		zone  *time.Location
		want  bool
	}{
		"without limits":     {site.Grant{}, time.UTC, true},
		"from now":           {site.Grant{Terms: site.Terms{From: site.At(at)}}, time.UTC, true},
		"from later":         {site.Grant{Terms: site.Terms{From: site.At(at.Add(time.Millisecond))}}, time.UTC, false},
		"until now":          {site.Grant{Terms: site.Terms{Until: site.At(at)}}, time.UTC, false},
		"until later":        {site.Grant{Terms: site.Terms{Until: site.At(at.Add(time.Millisecond))}}, time.UTC, true},
		"hours in UTC":       {site.Grant{Terms: site.Terms{Hours: hours}}, time.UTC, false},
		"hours in the zone":  {site.Grant{Terms: site.Terms{Hours: hours}}, berlin, true},
		"hours but not from": {site.Grant{Terms: site.Terms{Hours: hours, From: site.At(at.Add(time.Millisecond))}}, berlin, false},
	} {
		if c.grant.Covers(at, c.zone, nil) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}

func TestRecord_JSON(t *testing.T) {
	volts := 3.1
	r := site.Record{Seq: 7, Time: site.At(time.UnixMilli(0)), Boot: "b", Kind: site.KindBatteryLow, Facts: site.Facts{Station: 1042, BatteryVoltage: &volts}}
	data, err := json.Marshal(r)
	want := `{"seq":7,"time":"1970-01-01T00:00:00.000Z","clockTrusted":false,"boot":"b","kind":"battery-low","station":1042,"batteryVoltage":3.1}`
	if err != nil || string(data) != want {
		t.Errorf("%s, %v; want %s", data, err, want)
	}
}
