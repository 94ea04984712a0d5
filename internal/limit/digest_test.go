package limit_test

import (
	"testing"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// Of each key the first refusal gets a record, and the later ones share one a minute.
func TestDigest(t *testing.T) {
	d, now := limit.NewDigest[string](2), start()
	if facts, ok := d.Note("a", site.Facts{Station: 7}, now); !ok || facts.Station != 7 || facts.Count != 0 {
		t.Errorf("the first: %+v, %t", facts, ok)
	}
	for _, station := range []site.StationID{7, 8} {
		facts := site.Facts{Account: "x", Station: station, Lock: "lock-1", JTI: station.String(), By: "y", Detail: "same"}
		if _, ok := d.Note("a", facts, now.Add(time.Second)); ok {
			t.Error("a second record within a minute")
		}
	}
	if due := d.Due(now.Add(time.Minute-1), false); len(due) != 0 {
		t.Errorf("before the minute is over: %+v", due)
	}
	due := d.Due(now.Add(time.Minute), false)
	if len(due) != 1 || due[0].Count != 2 || due[0] != (site.Facts{Account: "x", Detail: "same", Count: 2}) {
		t.Errorf("after a minute: %+v", due)
	}
	if d.Due(now.Add(2*time.Minute), false); d.Len() != 0 {
		t.Error("an idle key is kept")
	}
}

// Refusals of several locks of a station name none.
func TestDigest_locks(t *testing.T) {
	d, now := limit.NewDigest[string](1), start()
	for _, lock := range []string{"lock-1", "lock-1", "lock-2"} {
		d.Note("a", site.Facts{Station: 7, Lock: lock}, now)
	}
	if due := d.Due(now, true); len(due) != 1 || due[0] != (site.Facts{Station: 7, Count: 2}) {
		t.Errorf("%+v", due)
	}
}

// A new key takes the place of one that is idle.
func TestDigest_replacesIdle(t *testing.T) {
	d, now := limit.NewDigest[string](2), start()
	for _, key := range []string{"a", "b"} {
		d.Note(key, site.Facts{}, now)
	}
	facts, ok := d.Note("c", site.Facts{Remote: "c"}, now.Add(time.Minute))
	if !ok || facts.Remote != "c" || d.Len() != 1 {
		t.Errorf("%+v, %t, %d keys", facts, ok, d.Len())
	}
}

// Beyond the bound, keys share one entry, which names no client.
func TestDigest_bounded(t *testing.T) {
	d, now := limit.NewDigest[string](2), start()
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		d.Note(key, site.Facts{Account: site.AccountID(key), Email: "x", Remote: key}, now)
	}
	due := d.Due(now, true)
	if d.Len() != 3 || len(due) != 1 || due[0].Count != 2 || due[0].Remote != "" || due[0].Account != "" || due[0].Email != "" {
		t.Errorf("%d keys, %+v", d.Len(), due)
	}
}
