package station_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// model is what reports should make of a station with two locks, kept in the
// plainest way.
type model struct {
	battery  any
	firmware string
	locks    [2]string
}

func (m model) String() string {
	return fmt.Sprintf("%v %q %s %s", m.battery, m.firmware, m.locks[0], m.locks[1])
}

// field is one value of a report; apply is nil when the value cannot be right.
type field struct {
	json  string
	apply func(*model)
}

func batteryField(t *rapid.T) field {
	if rapid.Bool().Draw(t, "battery right") {
		volts := rapid.Float64Range(0.01, 60).Draw(t, "volts")
		text, _ := json.Marshal(volts)
		return field{string(text), func(m *model) { m.battery = volts }}
	}
	return field{rapid.SampledFrom([]string{`0`, `-1`, `61`, `"4"`, `null`, `[]`, `{}`, `true`, `1e400`}).Draw(t, "battery wrong"), nil}
}

func firmwareField(t *rapid.T) field {
	if rapid.Bool().Draw(t, "firmware right") {
		text := rapid.StringMatching(`[A-Za-z0-9. +-]{1,64}`).Draw(t, "firmware")
		return field{`"` + text + `"`, func(m *model) { m.firmware = text }}
	}
	return field{rapid.SampledFrom([]string{`""`, `7`, `null`, `"a\u0000"`, `["1"]`, `"` + strings.Repeat("x", 65) + `"`}).Draw(t, "firmware wrong"), nil}
}

func lockItem(t *rapid.T) field {
	if rapid.Bool().Draw(t, "lock right") {
		lock := rapid.IntRange(1, 2).Draw(t, "lock")
		status := rapid.SampledFrom([]string{"locked", "unlocked", "jammed", "unknown"}).Draw(t, "status")
		name := rapid.SampledFrom([]string{"lock-%d", "%d"}).Draw(t, "form")
		return field{fmt.Sprintf(`{"lockId":"`+name+`","status":%q}`, lock, status), func(m *model) { m.locks[lock-1] = status }}
	}
	return field{rapid.SampledFrom([]string{
		`{"lockId":"lock-3","status":"locked"}`, `{"lockId":"lock-1"}`, `{"status":"locked"}`, `{"lockId":1,"status":"locked"}`,
		`{"lockId":"lock-1","status":"open"}`, `null`, `"lock-1"`, `[]`, `{"lockId":"lock-01","status":"locked"}`,
	}).Draw(t, "lock wrong"), nil}
}

// drawReport returns a payload, what it does to the model, and whether all of it
// can be right.
func drawReport(t *rapid.T) (payload string, apply []func(*model), valid bool) {
	var parts []string
	valid = true
	add := func(name string, f field) {
		parts = append(parts, fmt.Sprintf("%q:%s", name, f.json))
		if f.apply == nil {
			valid = false
		} else {
			apply = append(apply, f.apply)
		}
	}
	if rapid.Bool().Draw(t, "with battery") {
		add("batteryVoltage", batteryField(t))
	}
	if rapid.Bool().Draw(t, "with firmware") {
		add("firmware", firmwareField(t))
	}
	if rapid.Bool().Draw(t, "with locks") {
		var items []string
		for _, item := range rapid.SliceOfN(rapid.Custom(lockItem), 0, 6).Draw(t, "locks") {
			items = append(items, item.json)
			if item.apply == nil {
				valid = false
			} else {
				apply = append(apply, item.apply)
			}
		}
		parts = append(parts, `"locks":[`+strings.Join(items, ",")+`]`)
	}
	if rapid.Bool().Draw(t, "with a field of the future") {
		parts = append(parts, `"upness":{"batteryVoltage":[1,"x",null]}`)
	}
	rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	payload = "{" + strings.Join(parts, ",") + "}"
	if rapid.IntRange(0, 9).Draw(t, "spoilt") == 0 {
		return payload[:len(payload)-1], nil, false
	}
	return payload, apply, valid
}

// TestService_Report_model plays random reports against the model.
func TestService_Report_model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := setup(t, 1)
		m := model{battery: "-", locks: [2]string{"unknown", "unknown"}}
		for range rapid.IntRange(1, 8).Draw(rt, "reports") {
			payload, apply, valid := drawReport(rt)
			before, events := m, f.Latest()
			for _, change := range apply {
				change(&m)
			}
			err := f.Report(1, []byte(payload))
			if valid != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
				rt.Fatalf("%s: error %v", payload, err)
			}
			if got := f.brief(t, 1); got != m.String() {
				rt.Fatalf("%s:\ngot  %s\nwant %s", payload, got, m)
			}
			if changed := before != m; changed != (f.Latest() == events+1) {
				rt.Fatalf("%s: changed %v, %d events", payload, changed, f.Latest()-events)
			}
		}
	})
}

// FuzzReport feeds arbitrary bytes: whatever comes, the state stays one that a
// station can be in, and what is not JSON changes nothing.
func FuzzReport(f *testing.F) {
	for _, seed := range []string{
		`{"batteryVoltage": 3.71, "firmware": "1.4.2", "locks": [{"lockId": "lock-1", "status": "locked"}]}`,
		`{"locks":[{"lockId":"lock-2","status":"jammed"},{"lockId":"lock-9","status":"locked"},null,7,"x"]}`,
		`{"batteryVoltage":1e999,"firmware":"\ud800","locks":{}}`, `{"batteryVoltage":-0,"batteryVoltage":5}`,
		`{"firmware":"\u0000\u202e"}`, `null`, `[]`, `""`, `{`, "", "\xff\xfe", `{"locks":[[[[[[]]]]]]}`,
		`{"uptime":9007199254740992,"uptimeDrift":50000}`, `{"uptime":-1,"uptimeDrift":"x"}`,
		`{"":0,"a":{"b":[{"c":"d"}]}}`, "\ufeff{}", `{"batteryVoltage":3.71}` + "\x00",
	} {
		f.Add([]byte(seed))
	}
	x := setup(f, 1)
	f.Fuzz(func(t *testing.T, payload []byte) {
		before, events := x.brief(t, 1), x.Latest()
		err := x.Report(1, payload)
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("error %v", err)
		}
		after := x.brief(t, 1)
		if !json.Valid(payload) && (err == nil || after != before) {
			t.Fatalf("not JSON, error %v: %s became %s", err, before, after)
		}
		if (after != before) != (x.Latest() != events) {
			t.Fatalf("%s became %s with %d events", before, after, x.Latest()-events)
		}
		checkPossible(t, x.Service)
	})
}

func checkPossible(t *testing.T, s *station.Service) {
	t.Helper()
	st, _ := s.State(1)
	if v := st.BatteryVoltage; v != nil && !(*v > 0 && *v <= 60) {
		t.Fatalf("battery %g", *v)
	}
	firmware := s.Firmware(1)
	control := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if utf8.RuneCountInString(firmware) > 64 || strings.ContainsFunc(firmware, control) {
		t.Fatalf("firmware %q", firmware)
	}
	if len(st.Locks) != 2 {
		t.Fatalf("%d locks", len(st.Locks))
	}
	for _, k := range st.Locks {
		if _, err := site.ParseLockStatus(string(k.Status)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := json.Marshal(st); err != nil {
		t.Fatal(err)
	}
}
