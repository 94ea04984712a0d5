package station_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func TestNew_storeFails(t *testing.T) {
	m := newMemory()
	broken := errors.New("broken disk")
	m.failWith(broken)
	if _, err := station.New(t.Context(), config(m, &handClock{})); !errors.Is(err, broken) {
		t.Errorf("got %v, want the store's error", err)
	}
}

func TestService_reads(t *testing.T) {
	f := setup(t, 3)
	var ids []site.StationID
	for _, st := range f.Stations() {
		ids = append(ids, st.ID)
	}
	if fmt.Sprint(ids) != "[1 2 3]" {
		t.Errorf("Stations returns %v", ids)
	}
	st, ok := f.Station(1)
	if !ok || st.Name != "North entrance" || st.Locks != 2 || st.Token != token || !st.Enrolled.Equal(epoch()) {
		t.Errorf("Station(1) returns %+v, %v", st, ok)
	}
	if byToken, ok := f.ByToken(token); !ok || byToken != st {
		t.Errorf("ByToken returns %+v, %v", byToken, ok)
	}
	for _, wrong := range []site.Secret{"", "token-number-on", "token-number-one ", "TOKEN-NUMBER-ONE", site.Secret(strings.Repeat("x", 5000))} {
		if _, ok := f.ByToken(wrong); ok {
			t.Errorf("ByToken takes %q", wrong.Reveal())
		}
	}
	for lock, want := range map[site.LockID]bool{-1: false, 0: false, 1: true, 2: true, 3: false} {
		if got := f.HasLock(1, lock); got != want {
			t.Errorf("HasLock(1, %d) = %v", lock, got)
		}
	}
	if f.HasLock(9, 1) {
		t.Error("a station that is not enrolled has a lock")
	}
	if _, ok := f.Station(9); ok {
		t.Error("a station that is not enrolled is given")
	}
	if _, ok := f.State(9); ok {
		t.Error("a station that is not enrolled has a state")
	}
}

func TestService_State_fresh(t *testing.T) {
	f := setup(t, 1)
	got, err := json.Marshal(f.state(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"stationId":1,"batteryVoltage":null,"lastConnection":null,"status":"offline","locks":[` +
		`{"lockId":"lock-1","status":"unknown","lastUpdated":null},{"lockId":"lock-2","status":"unknown","lastUpdated":null}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestService_State_isCopy(t *testing.T) {
	f := setup(t, 1)
	if err := f.Report(1, []byte(`{"batteryVoltage":4,"locks":[{"lockId":"lock-1","status":"locked"}]}`)); err != nil {
		t.Fatal(err)
	}
	spoiled := f.state(t, 1)
	*spoiled.BatteryVoltage, spoiled.Locks[0].Status = 1, site.Jammed
	if st := f.state(t, 1); *st.BatteryVoltage != 4 || st.Locks[0].Status != site.Locked {
		t.Errorf("the caller changed the station: %+v", st)
	}
}

// TestService_restart proves that what was last known comes back, offline.
func TestService_restart(t *testing.T) {
	m, clock := newMemory(), &handClock{now: epoch()}
	volts := 3.9
	m.stations[1] = site.Station{ID: 1, Locks: 2, Token: token}
	m.states[1] = station.SavedState{
		Station: 1, BatteryVoltage: &volts, Firmware: "1.4.2", LastConnection: epoch().Add(-time.Hour),
		Locks: []site.Lock{
			{ID: 1, Status: site.Locked, LastUpdated: site.At(epoch().Add(-2 * time.Hour))},
			{ID: 2, Status: site.Unknown},
		},
	}
	f := &fixture{Service: open(t, config(m, clock)), store: m, clock: clock}
	got, err := json.Marshal(f.state(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"stationId":1,"batteryVoltage":3.9,"lastConnection":"2026-03-01T11:00:00.000Z","status":"offline","locks":[` +
		`{"lockId":"lock-1","status":"locked","lastUpdated":"2026-03-01T10:00:00.000Z"},{"lockId":"lock-2","status":"unknown","lastUpdated":null}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := f.Firmware(1); got != "1.4.2" {
		t.Errorf("firmware %q", got)
	}
	if err := f.Report(1, []byte(`{"batteryVoltage":3.9,"firmware":"1.4.2","locks":[{"lockId":"lock-1","status":"locked"}]}`)); err != nil {
		t.Fatal(err)
	}
	if f.Latest() != 0 || len(m.journalled()) != 0 {
		t.Errorf("saying the same again made %d events and the records %v", f.Latest(), m.journalled())
	}
}

// TestService_restart_damaged proves that a saved state that makes no sense does
// no harm.
func TestService_restart_damaged(t *testing.T) {
	m := newMemory()
	volts := math.Inf(1)
	m.stations[1] = site.Station{ID: 1, Locks: 1, Token: token}
	m.states[1] = station.SavedState{
		Station: 1, BatteryVoltage: &volts, Firmware: "\x1b[2J",
		Locks: []site.Lock{{ID: 1, Status: "open"}, {ID: 2, Status: site.Locked}, {ID: 0, Status: site.Locked}},
	}
	m.states[7] = station.SavedState{Station: 7}
	f := &fixture{Service: open(t, config(m, &handClock{now: epoch()}))}
	st := f.state(t, 1)
	if st.BatteryVoltage != nil || len(st.Locks) != 1 || st.Locks[0].Status != site.Unknown || f.Firmware(1) != "" {
		t.Errorf("damage was taken over: %+v, firmware %q", st, f.Firmware(1))
	}
	if _, ok := f.State(7); ok {
		t.Error("a saved state made a station")
	}
}

func TestService_restart_lowBatteryToldOnce(t *testing.T) {
	m := newMemory()
	volts := 3.0
	m.stations[1] = site.Station{ID: 1, Locks: 1, Token: token}
	m.states[1] = station.SavedState{Station: 1, BatteryVoltage: &volts}
	s := open(t, config(m, &handClock{now: epoch()}))
	if err := s.Report(1, battery(2.9)); err != nil {
		t.Fatal(err)
	}
	if got := m.journalled(site.KindBatteryLow); len(got) != 0 {
		t.Errorf("a battery that was low before the restart is told again: %v", got)
	}
}

// TestService_printsNoSecret prints everything exported that may hold a secret.
func TestService_printsNoSecret(t *testing.T) {
	f := setup(t, 1)
	enrolled, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 2, Locks: 1})
	if err != nil {
		t.Fatal(err)
	}
	st, _ := f.Station(2)
	request := station.EnrolRequest{ID: 2, Locks: 1, Secret: enrolled.Secret, Token: enrolled.Token}
	hidden := []string{enrolled.Secret.Reveal(), enrolled.Token.Reveal(), secret.Reveal(), token.Reveal()}
	for _, kept := range [][]byte{st.Secret.Sum[:], st.Secret.Salt[:]} {
		numbers := strings.Trim(fmt.Sprintf("%d", kept), "[]")
		hidden = append(hidden, numbers, strings.ReplaceAll(numbers, " ", ","), hex.EncodeToString(kept), fmt.Sprintf("%X", kept))
	}
	event, _ := f.EventsSince(0, 0)
	words := []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"}
	for name, c := range map[string]struct {
		v     any
		forms []string
	}{
		"Enrolled": {enrolled, words}, "*Enrolled": {&enrolled, words}, "EnrolRequest": {request, words},
		"Station": {st, words}, "Stations": {f.Stations(), words}, "SecretHash": {st.Secret, words},
		"Events": {event, words}, "SavedState": {station.SavedState{Station: 2}, words},
		"Service": {f.Service, words[:3]}, "Config": {config(f.store, f.clock), words[:3]},
	} {
		t.Run(name, func(t *testing.T) {
			for how, text := range printings(c.v, c.forms) {
				for _, h := range hidden {
					if strings.Contains(text, h) {
						t.Errorf("%s prints %q", how, h)
					}
				}
			}
		})
	}
}

// printings prints v in every way that a log or an answer may.
func printings(v any, forms []string) map[string]string {
	out := make(map[string]string)
	for _, form := range forms {
		out[form] = fmt.Sprintf(form, v)
	}
	var plain, structured, text bytes.Buffer
	_ = json.NewEncoder(&plain).Encode(v)
	slog.New(slog.NewJSONHandler(&structured, nil)).Info("v", "v", v)
	slog.New(slog.NewTextHandler(&text, nil)).Info("v", "v", v)
	out["json"], out["slog as JSON"], out["slog as text"] = plain.String(), structured.String(), text.String()
	return out
}

func TestService_metrics(t *testing.T) {
	m := newMemory()
	c := config(m, &handClock{now: epoch()})
	f := &fixture{Service: open(t, c), store: m}
	for id := site.StationID(1); id <= 2; id++ {
		if _, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: id, Locks: 1, Secret: secret}); err != nil {
			t.Fatal(err)
		}
	}
	f.connect(t)
	wantKind(t, f.Report(1, []byte(`{`)), fault.Invalid)
	var out bytes.Buffer
	c.Metrics.Write(&out)
	for _, line := range []string{"gatehouse_stations_online 1\n", "gatehouse_stations_enrolled 2\n", "gatehouse_station_reports_invalid_total 1\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the metrics lack %q", line)
		}
	}
}
