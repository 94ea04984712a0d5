package site_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"gatehouse/internal/site"
)

func TestUpdateStatus_Sentences(t *testing.T) {
	at := site.At(time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC))
	board := site.UpdateStatus{
		Image: true, Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Default: "a",
		Other: site.SlotStatus{Slot: "b", Version: "1.3.0"}, Phase: site.UpdateIdle,
	}
	runs, other := "Version 1.2.3 runs, from slot a.", "Slot b has version 1.3.0."
	last := func(version string, outcome site.UpdateOutcome, reason string) func(*site.UpdateStatus) {
		return func(s *site.UpdateStatus) {
			s.Last = &site.LastUpdate{Version: version, Outcome: outcome, Time: at, Reason: reason}
		}
	}
	phase := func(phase site.UpdatePhase, percent int) func(*site.UpdateStatus) {
		return func(s *site.UpdateStatus) { s.Phase, s.Percent, s.Target, s.At = phase, percent, "1.3.0", at }
	}
	for name, c := range map[string]struct {
		change func(*site.UpdateStatus)
		want   []string
	}{
		"package":    {func(s *site.UpdateStatus) { *s = site.UpdateStatus{Advice: "Run apt."} }, []string{"Run apt."}},
		"idle":       {func(*site.UpdateStatus) {}, []string{runs, other}},
		"empty":      {func(s *site.UpdateStatus) { s.Other.Version = "" }, []string{runs, "Slot b is empty."}},
		"menu":       {func(s *site.UpdateStatus) { s.Default = "b" }, []string{runs, other, "Slot b is the default: the next start takes it."}},
		"no default": {func(s *site.UpdateStatus) { s.Default, s.Trouble = "", "restore that line" }, []string{runs, other, "No update is possible: restore that line."}},
		"fetching":   {phase(site.UpdateFetching, 42), []string{runs, other, "Version 1.3.0 is being fetched: 42 %."}},
		"unknown":    {func(s *site.UpdateStatus) { s.Phase = site.UpdateFetching }, []string{runs, other, "An update is being fetched."}},
		"checking":   {phase(site.UpdateChecking, 0), []string{runs, other, "Version 1.3.0 is being checked."}},
		"writing":    {phase(site.UpdateWriting, 7), []string{runs, other, "Version 1.3.0 is being written to slot b: 7 %."}},
		"verify":     {phase(site.UpdateVerifying, 7), []string{runs, other, "Version 1.3.0 is being read back from slot b: 7 %."}},
		"waiting": {phase(site.UpdateWaiting, 0), []string{
			runs, other,
			"Version 1.3.0 waits in slot b: the board restarts into it at 2026-11-23 03:00 CET.",
		}},
		"waiting, but not for a moment": {func(s *site.UpdateStatus) {
			phase(site.UpdateWaiting, 0)(s)
			s.At = site.Timestamp{}
		}, []string{runs, other, "Version 1.3.0 waits in slot b: the board restarts into it at once."}},
		"waiting for the clock": {func(s *site.UpdateStatus) {
			phase(site.UpdateWaiting, 0)(s)
			s.WaitingFor = "a trusted clock"
		}, []string{
			runs, other,
			"Version 1.3.0 is in slot b, to be tried at 2026-11-23 03:00 CET: the board waits for a trusted clock.",
		}},
		"restarting": {phase(site.UpdateRestarting, 0), []string{runs, other, "The board restarts to try slot b."}},
		"after a trial": {func(s *site.UpdateStatus) { phase(site.UpdateRestarting, 0)(s); s.Default = "b" }, []string{
			runs, other, "Slot b is the default: the next start takes it.", "Version 1.2.3 did not pass its trial: the board goes back to slot b.",
		}},
		"trial": {func(s *site.UpdateStatus) {
			s.Phase, s.Default, s.WaitingFor = site.UpdateTrial, "b", "2 of 5 stations"
		}, []string{
			runs, other,
			"Version 1.2.3 is on trial, and waits for 2 of 5 stations: unless all is well in time, the board goes back to slot b.",
		}},
		"committed": {last("1.2.3", site.UpdateCommitted, ""), []string{runs, other, "The last update to version 1.2.3 was completed at 2026-11-23 03:00 CET."}},
		"fell back": {last("1.3.0", site.UpdateFellBack, "the kernel panicked"), []string{
			runs, other,
			"The last update to version 1.3.0 was undone at 2026-11-23 03:00 CET: the kernel panicked.",
		}},
		"fell back, and one was refused": {func(s *site.UpdateStatus) {
			last("1.3.0", site.UpdateFellBack, "the kernel panicked")(s)
			s.Before = s.Last
			last("", site.UpdateRefused, "no signature")(s)
		}, []string{
			runs, other, "The last update was refused at 2026-11-23 03:00 CET: no signature.",
			"Before that, an update to version 1.3.0 was undone at 2026-11-23 03:00 CET: the kernel panicked.",
		}},
		"refused": {last("", site.UpdateRefused, "no signature"), []string{runs, other, "The last update was refused at 2026-11-23 03:00 CET: no signature."}},
		"failed":  {last("", site.UpdateFailed, "no room"), []string{runs, other, "The last update failed at 2026-11-23 03:00 CET: no room."}},
	} {
		s := board
		c.change(&s)
		if got := s.Sentences(time.FixedZone("CET", 3600)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestUpdateStatus_JSON(t *testing.T) {
	for want, s := range map[string]site.UpdateStatus{
		`{"image":false,"advice":"Run apt."}`: {Advice: "Run apt."},
		`{"image":true,"family":"gatehouse-arm64","running":{"slot":"a","version":"1.2.3"},"default":"a","other":{"slot":"b","version":""},` +
			`"phase":"idle","last":{"version":"1.3.0","outcome":"refused","time":"2026-11-23T02:00:00.000Z","reason":"no signature"}}`: {
			Image: true, Family: "gatehouse-arm64", Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Default: "a", Other: site.SlotStatus{Slot: "b"},
			Phase: site.UpdateIdle, Last: &site.LastUpdate{
				Version: "1.3.0", Outcome: site.UpdateRefused, Time: site.At(time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)), Reason: "no signature",
			},
		},
	} {
		got, err := json.Marshal(s)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
