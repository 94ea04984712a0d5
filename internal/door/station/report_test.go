package station_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// brief shows what a report can change: battery, firmware, locks.
func (f *fixture) brief(tb testing.TB, id site.StationID) string {
	tb.Helper()
	st := f.state(tb, id)
	battery := "-"
	if st.BatteryVoltage != nil {
		battery = fmt.Sprint(*st.BatteryVoltage)
	}
	words := []string{battery, fmt.Sprintf("%q", f.Firmware(id))}
	for _, k := range st.Locks {
		words = append(words, string(k.Status))
	}
	return strings.Join(words, " ")
}

func TestService_Report(t *testing.T) {
	const before = `3.9 "1.0" locked unknown`
	for _, c := range []struct {
		name, payload, want string
		valid               bool
	}{
		{"all", `{"batteryVoltage":3.71,"firmware":"1.4.2","locks":[{"lockId":"lock-1","status":"unlocked"},{"lockId":"lock-2","status":"jammed"}]}`, `3.71 "1.4.2" unlocked jammed`, true},
		{"nothing", `{}`, before, true},
		{"no locks", `{"locks":[]}`, before, true},
		{"unknown fields", `{"rssi":-70,"batteryVoltage":4,"nested":{"batteryVoltage":1}}`, `4 "1.0" locked unknown`, true},
		{"unknown fields of a lock", `{"locks":[{"lockId":"lock-1","status":"jammed","bolt":7}]}`, `3.9 "1.0" jammed unknown`, true},
		{"short lock id", `{"locks":[{"lockId":"2","status":"locked"}]}`, `3.9 "1.0" locked locked`, true},
		{"space", " \r\n{ \"batteryVoltage\" : 4 , \"locks\" : [ { \"lockId\" : \"lock-2\" , \"status\" : \"locked\" } ] } \n", `4 "1.0" locked locked`, true},
		{"lock unknown again", `{"locks":[{"lockId":"lock-1","status":"unknown"}]}`, `3.9 "1.0" unknown unknown`, true},
		{"highest voltage", `{"batteryVoltage":60}`, `60 "1.0" locked unknown`, true},
		{"voltage with exponent", `{"batteryVoltage":12e-1}`, `1.2 "1.0" locked unknown`, true},
		{"longest firmware", `{"firmware":"` + strings.Repeat("ß", 64) + `"}`, `3.9 "` + strings.Repeat("ß", 64) + `" locked unknown`, true},
		{"field twice", `{"batteryVoltage":1,"batteryVoltage":2}`, `2 "1.0" locked unknown`, true},
		{"lock twice", `{"locks":[{"lockId":"lock-1","status":"jammed"},{"lockId":"1","status":"unlocked"}]}`, `3.9 "1.0" unlocked unknown`, true},
		{"names are case-sensitive", `{"BatteryVoltage":1,"LOCKS":7}`, before, true},

		{"empty", ``, before, false},
		{"not JSON", `batteryVoltage=4`, before, false},
		{"cut off", `{"batteryVoltage":4,"firmware":"2"`, before, false},
		{"trailing data", `{"batteryVoltage":4}{}`, before, false},
		{"null", `null`, before, false},
		{"list", `[{"batteryVoltage":4}]`, before, false},
		{"text", `"batteryVoltage"`, before, false},
		{"not UTF-8", "{\"batteryVoltage\":4,\"firmware\":\"\xff\"}", before, false},
		{"too deep", strings.Repeat("[", 8000), before, false},

		{"voltage text, firmware right", `{"batteryVoltage":"4","firmware":"2"}`, `3.9 "2" locked unknown`, false},
		{"voltage null", `{"batteryVoltage":null,"firmware":"2"}`, `3.9 "2" locked unknown`, false},
		{"voltage zero", `{"batteryVoltage":0}`, before, false},
		{"voltage negative", `{"batteryVoltage":-3.7}`, before, false},
		{"voltage too high", `{"batteryVoltage":60.001}`, before, false},
		{"voltage beyond numbers", `{"batteryVoltage":1e999,"firmware":"2"}`, `3.9 "2" locked unknown`, false},
		{"voltage list", `{"batteryVoltage":[4]}`, before, false},
		{"firmware number, voltage right", `{"firmware":2,"batteryVoltage":4}`, `4 "1.0" locked unknown`, false},
		{"firmware null", `{"firmware":null}`, before, false},
		{"firmware empty", `{"firmware":""}`, before, false},
		{"firmware too long", `{"firmware":"` + strings.Repeat("1", 65) + `"}`, before, false},
		{"firmware with control", `{"firmware":"1\u001b[2J"}`, before, false},
		{"firmware with line", `{"firmware":"1\n2"}`, before, false},
		{"firmware turning text", `{"firmware":"1\u202e2"}`, before, false},
		{"firmware half a surrogate", `{"firmware":"1\ud800"}`, before, false},
		{"locks object, voltage right", `{"locks":{"lockId":"lock-1","status":"jammed"},"batteryVoltage":4}`, `4 "1.0" locked unknown`, false},
		{"locks null", `{"locks":null}`, before, false},
		{"lock undeclared, other right", `{"locks":[{"lockId":"lock-3","status":"jammed"},{"lockId":"lock-2","status":"jammed"}]}`, `3.9 "1.0" locked jammed`, false},
		{"lock zero", `{"locks":[{"lockId":"lock-0","status":"jammed"}]}`, before, false},
		{"lock number", `{"locks":[{"lockId":1,"status":"jammed"},{"lockId":"lock-2","status":"locked"}]}`, `3.9 "1.0" locked locked`, false},
		{"lock without id", `{"locks":[{"status":"jammed"}]}`, before, false},
		{"lock without status", `{"locks":[{"lockId":"lock-1"}]}`, before, false},
		{"lock status wrong", `{"locks":[{"lockId":"lock-1","status":"LOCKED"},{"lockId":"lock-2","status":"locked"}]}`, `3.9 "1.0" locked locked`, false},
		{"lock status boolean", `{"locks":[{"lockId":"lock-1","status":true}]}`, before, false},
		{"lock null", `{"locks":[null,{"lockId":"lock-2","status":"locked"}]}`, `3.9 "1.0" locked locked`, false},
		{"locks beyond the bound", `{"locks":[` + strings.Repeat(`{},`, 64) + `{"lockId":"lock-2","status":"locked"}]}`, before, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, 1)
			if err := f.Report(1, []byte(`{"batteryVoltage":3.9,"firmware":"1.0","locks":[{"lockId":"lock-1","status":"locked"}]}`)); err != nil {
				t.Fatal(err)
			}
			err := f.Report(1, []byte(c.payload))
			if c.valid && err != nil {
				t.Errorf("complained: %v", err)
			}
			if !c.valid {
				wantKind(t, err, fault.Invalid)
			}
			if got := f.brief(t, 1); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestService_Report_quotesNothing proves that an error about a report carries
// nothing that a station wrote.
func TestService_Report_quotesNothing(t *testing.T) {
	f := setup(t, 1)
	for _, payload := range []string{
		`HOSTILE`, `{"batteryVoltage":"HOSTILE"}`, `{"firmware":"HOSTILE\n"}`, `{"locks":"HOSTILE"}`,
		`{"locks":[{"lockId":"HOSTILE","status":"locked"}]}`, `{"locks":[{"lockId":"lock-1","status":"HOSTILE"}]}`,
	} {
		err := f.Report(1, []byte(payload))
		wantKind(t, err, fault.Invalid)
		if strings.Contains(err.Error(), "HOSTILE") {
			t.Errorf("%s: the error says %v", payload, err)
		}
	}
}

func TestService_Report_times(t *testing.T) {
	f := setup(t, 1)
	report := []byte(`{"locks":[{"lockId":"lock-1","status":"locked"}]}`)
	for range 2 { // the same status again is news all the same
		f.clock.advance(time.Minute)
		if err := f.Report(1, report); err != nil {
			t.Fatal(err)
		}
		st := f.state(t, 1)
		if now := f.clock.Now(); !st.LastConnection.Equal(now) || !st.Locks[0].LastUpdated.Equal(now) || !st.Locks[1].LastUpdated.IsZero() {
			t.Errorf("at %s the state is %+v", now, st)
		}
	}
	f.clock.advance(time.Minute)
	f.LockReported(1, 2, site.Unlocked)
	st := f.state(t, 1)
	if now := f.clock.Now(); !st.LastConnection.Equal(now) || !st.Locks[1].LastUpdated.Equal(now) || st.Locks[0].LastUpdated.Equal(now) {
		t.Errorf("at %s the state is %+v", now, st)
	}
}

func TestService_Report_journal(t *testing.T) {
	f := setup(t, 1)
	for _, payload := range []string{
		`{"locks":[{"lockId":"lock-1","status":"locked"}]}`,
		`{"locks":[{"lockId":"lock-1","status":"locked"}],"firmware":"2"}`,
		`{"locks":[{"lockId":"lock-1","status":"unlocked"},{"lockId":"lock-2","status":"jammed"}]}`,
	} {
		if err := f.Report(1, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	f.LockReported(1, 1, site.Locked)
	var got []string
	for _, r := range f.store.journalled() {
		text, err := json.Marshal(r.Facts)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(r.Kind)+string(text))
	}
	want := []string{
		`lock-changed{"station":1,"lock":"lock-1","status":"locked"}`,
		`lock-changed{"station":1,"lock":"lock-1","status":"unlocked"}`,
		`lock-changed{"station":1,"lock":"lock-2","status":"jammed"}`,
		`lock-changed{"station":1,"lock":"lock-1","status":"locked"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %s", strings.Join(got, "\n"))
	}
}

func TestService_Report_batteryLow(t *testing.T) {
	f := setup(t, 1)
	for _, step := range []struct {
		volts float64
		told  bool
	}{
		{3.5, false}, {3.49, true}, {3.4, false}, {3.55, false}, {3.45, false}, // low once, until it has risen
		{3.65, false}, {3.4, true}, {3.3, false},
	} {
		before := len(f.store.journalled(site.KindBatteryLow))
		if err := f.Report(1, fmt.Appendf(nil, `{"batteryVoltage":%g}`, step.volts)); err != nil {
			t.Fatal(err)
		}
		got := f.store.journalled(site.KindBatteryLow)
		if told := len(got) > before; told != step.told {
			t.Fatalf("at %g V: told %v", step.volts, told)
		}
		if step.told {
			if r := got[before]; r.Station != 1 || *r.BatteryVoltage != step.volts {
				t.Errorf("at %g V: recorded %+v", step.volts, r)
			}
		}
	}
}

// TestService_Report_batteryFlapping proves that a battery cannot fill the
// journal.
func TestService_Report_batteryFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 1)
		for range 3600 { // an hour
			_ = f.Report(1, []byte(`{"batteryVoltage":1}`))
			_ = f.Report(1, []byte(`{"batteryVoltage":5}`))
			f.pass(time.Second)
		}
		if got := len(f.store.journalled(site.KindBatteryLow)); got < 1 || got > 3 {
			t.Errorf("%d records in an hour", got)
		}
		f.pass(time.Hour)
		_ = f.Report(1, []byte(`{"batteryVoltage":1}`))
		told := 0
		for _, r := range f.store.journalled(site.KindBatteryLow) {
			told += 1 + r.Count
		}
		if told != 3601 {
			t.Errorf("the records account for %d of 3601", told)
		}
	})
}

func TestService_Report_batteryLowOff(t *testing.T) {
	m := newMemory()
	m.stations[1] = site.Station{ID: 1, Locks: 1, Token: token}
	c := config(m, &handClock{now: epoch()})
	c.BatteryLow = 0
	if err := open(t, c).Report(1, battery(0.001)); err != nil {
		t.Fatal(err)
	}
	if got := m.journalled(); len(got) != 0 {
		t.Errorf("recorded %+v", got)
	}
}
