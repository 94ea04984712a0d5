package main

import (
	"strings"
	"testing"
	"testing/synctest"
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
     9  2026-11-21 09:00:06   unlock             station 7 (Roof)  lock-1  done
    10  2026-11-21 09:00:07   granted            station 7 (Roof)  lock-1  until 2036-01-01 00:00:00 CET, not 2035-99-31T23:00:00Z
    12  2026-11-21 09:00:08?  unlock             station 7 (Roof)  lock-1  unknown
    13  2026-11-21 09:00:19?  lock-changed       station 7 (Roof)  lock-1  unlocked
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// An acknowledgement and the result that follows it have one line, whatever the result and
// whatever comes between; without a result the acknowledgement has it.
func TestTextRecords_oneLineAnAcknowledgedUnlock(t *testing.T) {
	type record struct {
		second  int
		command site.CommandID
		outcome site.Outcome // "": a login
	}
	for name, c := range map[string]struct {
		records []record
		want    string // by number and outcome
	}{
		"done":              {[]record{{0, "1", site.Acknowledged}, {1, "1", site.Done}}, "2 done"},
		"refused":           {[]record{{0, "1", site.Acknowledged}, {1, "1", site.Refused}}, "2 refused"},
		"failed":            {[]record{{0, "1", site.Acknowledged}, {1, "1", site.Failed}}, "2 failed"},
		"nothing":           {[]record{{0, "1", site.Acknowledged}, {90, "", ""}}, "1 acknowledged, 2 login"},
		"nothing, the last": {[]record{{0, "1", site.Acknowledged}}, "1 acknowledged"},
		"a login between":   {[]record{{0, "1", site.Acknowledged}, {1, "", ""}, {2, "1", site.Refused}}, "2 login, 3 refused"},
		"two at once":       {[]record{{0, "1", site.Acknowledged}, {0, "2", site.Acknowledged}, {1, "1", site.Refused}, {2, "2", site.Done}}, "3 refused, 4 done"},
		"one without":       {[]record{{0, "1", site.Acknowledged}, {1, "2", site.Acknowledged}, {2, "2", site.Done}}, "1 acknowledged, 3 done"},
		"late":              {[]record{{0, "1", site.Acknowledged}, {6, "", ""}, {7, "1", site.Late}}, "2 login, 3 late"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			w := newTextRecords(testApp(), &out, false, nil)
			for i, r := range c.records {
				full := site.Record{Seq: uint64(i + 1), Time: site.At(time.Date(2026, 11, 21, 8, 0, r.second, 0, time.UTC)), ClockTrusted: true, Kind: site.KindLogin}
				if r.outcome != "" {
					full.Kind, full.Facts = site.KindUnlock, site.Facts{Station: 7, Lock: "lock-1", Command: r.command, Outcome: r.outcome}
				}
				if err := w.Record(full); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.End(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
				fields := strings.Fields(line)
				got = append(got, fields[0]+" "+fields[len(fields)-1])
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Who follows the journal sees an acknowledgement without a result after a while.
func TestTextRecords_follow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		w := newTextRecords(testApp(), &out, false, nil)
		w.follow = true
		written := func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			return out.String()
		}
		r := site.Record{Seq: 1, Time: site.At(time.Now()), Kind: site.KindUnlock, Facts: site.Facts{Command: "1", Outcome: site.Acknowledged}}
		if err := w.Record(r); err != nil || strings.Contains(written(), "acknowledged") {
			t.Errorf("at once: %v %s", err, written())
		}
		time.Sleep(resultTime)
		synctest.Wait()
		if !strings.Contains(written(), "acknowledged") {
			t.Errorf("after a while: %s", written())
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
	})
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
