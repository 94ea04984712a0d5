package main

import (
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
)

// Of an unlock people see one line: its outcome, or its request where a restart kept the
// outcome from being recorded. A lock that opens by itself stays visible.
func TestTextRecords_oneLineAnUnlock(t *testing.T) {
	var out strings.Builder
	w := newTextRecords(testApp(), &lines{w: &out}, false, map[site.StationID]string{7: "Roof"})
	seq := uint64(0)
	put := func(boot site.BootID, seconds int, kind site.Kind, facts site.Facts) {
		seq++
		facts.Station, facts.Lock = 7, "lock-1"
		when := site.At(time.Date(2026, 11, 21, 8, 0, seconds, 5e6, time.UTC))
		if err := w.record(site.Record{Seq: seq, Time: when, ClockTrusted: boot != "b", Boot: boot, Kind: kind, Facts: facts}); err != nil {
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
	put("a", 7, site.KindUnlock, site.Facts{Command: "3", Outcome: site.Requested}) // 10: and the power fails
	put("b", 8, site.KindLockChanged, site.Facts{Status: site.Unlocked})
	put("b", 9, site.KindUnlock, site.Facts{Command: "4", Outcome: site.Requested}) // 12: in flight at the end
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	want := `   SEQ  TIME (CET)            KIND               WHAT
     3  2026-11-21 09:00:01   unlock             station 7 (Roof)  lock-1  done
     4  2026-11-21 09:00:02   lock-changed       station 7 (Roof)  lock-1  locked
     5  2026-11-21 09:00:03   lock-changed       station 7 (Roof)  lock-1  unlocked
     7  2026-11-21 09:00:05   unlock             station 7 (Roof)  lock-1  acknowledged
    10  2026-11-21 09:00:07   unlock             station 7 (Roof)  lock-1  requested
    11  2026-11-21 09:00:08?  lock-changed       station 7 (Roof)  lock-1  unlocked
    12  2026-11-21 09:00:09?  unlock             station 7 (Roof)  lock-1  requested
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// Long lines wrap at blanks below the last column; a word is never broken.
func TestLines_wrap(t *testing.T) {
	var out strings.Builder
	w := &lines{w: &out, width: 40}
	w.table([]string{"NAME", "WHAT"}, [][]string{
		{"port", "Another program has the port of 1883 open: stop it"},
		{"key", strings.Repeat("x", 50)},
	})
	w.printf("    > systemctl restart gatehouse.socket gatehouse")
	want := `NAME  WHAT
port  Another program has the port of
      1883 open: stop it
key
    ` + strings.Repeat("x", 50) + `
    > systemctl restart gatehouse.socket
      gatehouse
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for width := range 30 { // whatever the terminal: every word is there, once
		out.Reset()
		(&lines{w: &out, width: width}).row([]int{10}, "", "one two three four")
		if got := strings.Join(strings.Fields(out.String()), " "); got != "one two three four" {
			t.Errorf("width %d: %q", width, got)
		}
	}
}
