package main

import (
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
)

// Of an unlock people see one line: its outcome, which the next start records where the
// process ended before. A lock that opens by itself stays visible.
func TestTextRecords_oneLineAnUnlock(t *testing.T) {
	var out strings.Builder
	w := newTextRecords(testApp(), &out, false, map[site.StationID]string{7: "Roof"})
	seq := uint64(0)
	put := func(boot site.BootID, seconds int, kind site.Kind, facts site.Facts) {
		seq++
		facts.Station, facts.Lock = 7, "lock-1"
		when := site.At(time.Date(2026, 11, 21, 8, 0, seconds, 5e6, time.UTC))
		if err := w.Record(site.Record{Seq: seq, Time: when, ClockTrusted: boot != "b", Boot: boot, Kind: kind, Facts: facts}); err != nil {
			t.Fatal(err)
		}
	}
	put("a", 0, site.KindUnlock, site.Facts{Command: "1", Outcome: site.Requested})
	put("a", 1, site.KindLockChanged, site.Facts{Status: site.Unlocked})
	put("a", 1, site.KindUnlock, site.Facts{Command: "1", Outcome: site.Done})
	put("a", 2, site.KindLockChanged, site.Facts{Status: site.Locked})
	put("a", 3, site.KindLockChanged, site.Facts{Status: site.Unlocked}) // 5: with a key
	put("a", 4, site.KindUnlock, site.Facts{Command: "2", Outcome: site.Requested})
	put("a", 5, site.KindUnlock, site.Facts{Command: "2", Outcome: site.Acknowledged})
	put("a", 6, site.KindLockChanged, site.Facts{Status: site.Unlocked})
	put("a", 6, site.KindUnlock, site.Facts{Command: "2", Outcome: site.Done})
	put("a", 7, site.KindGranted, site.Facts{Detail: "until 2035-12-31T23:00:00.000Z, not 2035-99-31T23:00:00Z"})
	put("a", 7, site.KindUnlock, site.Facts{Command: "3", Outcome: site.Requested}) // and the power fails
	put("b", 8, site.KindUnlock, site.Facts{Command: "3", Outcome: site.Unresolved})
	put("b", 19, site.KindLockChanged, site.Facts{Status: site.Unlocked}) // 13: long after
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	want := `   SEQ  TIME (CET)            KIND               WHAT
     3  2026-11-21 09:00:01   unlock             station 7 (Roof)  lock-1  done
     4  2026-11-21 09:00:02   lock-changed       station 7 (Roof)  lock-1  locked
     5  2026-11-21 09:00:03   lock-changed       station 7 (Roof)  lock-1  unlocked
     7  2026-11-21 09:00:05   unlock             station 7 (Roof)  lock-1  acknowledged
    10  2026-11-21 09:00:07   granted            station 7 (Roof)  lock-1  until 2036-01-01 00:00:00 CET, not 2035-99-31T23:00:00Z
    12  2026-11-21 09:00:08?  unlock             station 7 (Roof)  lock-1  unknown
    13  2026-11-21 09:00:19?  lock-changed       station 7 (Roof)  lock-1  unlocked
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// Each record of a door or an alarm says what it means.
func TestFactsText_doors(t *testing.T) {
	for want, r := range map[string]site.Record{
		"station 7 (Roof)  lock-1":                                    {Kind: site.KindDoorOpened},
		"station 7 (Roof)  lock-1  2 changes before without a record": {Kind: site.KindDoorClosed, Facts: site.Facts{Count: 2}},
		"station 7 (Roof)  lock-1  the door was not opened":           {Kind: site.KindNotOpened, Facts: site.Facts{Command: "c", Detail: "the door was not opened"}},
		"station 7 (Roof)  lock-1  open for too long  60 times":       {Kind: site.KindDoorHeld, Facts: site.Facts{Detail: "open for too long", Count: 60}},
		"station 7 (Roof)  lock-1  logins with a wrong password":      {Kind: site.KindRefusedOften, Facts: site.Facts{Detail: "logins with a wrong password"}},
	} {
		r.Station, r.Lock = 7, "lock-1"
		if got := factsText(r, map[site.StationID]string{7: "Roof"}); got != want {
			t.Errorf("%s: %q, want %q", r.Kind, got, want)
		}
	}
}

// The name of an integration is enough: its account is an id. Without a name the id stays.
func TestFactsText_integration(t *testing.T) {
	r := site.Record{Kind: site.KindUnlock, Facts: site.Facts{Account: "id-1", By: "Reception", Station: 7, Outcome: site.Done}}
	if got, want := factsText(r, nil), "by Reception  station 7  done"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.By = ""
	if got, want := factsText(r, nil), "account id-1  station 7  done"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
