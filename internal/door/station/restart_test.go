package station_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"slices"
	"testing"

	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// pack stops a service as the gateway does, and returns what it leaves.
func (f *fixture) pack(t *testing.T, boot site.BootID) []byte {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ended); err != nil {
		t.Fatal(err)
	}
	packed, ok := f.PackEvents(boot)
	if !ok {
		t.Fatal("the events are not complete")
	}
	return packed
}

// What one run leaves, the next continues: events, numbers and gaps.
func TestService_AdoptEvents(t *testing.T) {
	for _, flips := range []int{0, 5, kept - 3, kept, 3 * kept} {
		t.Run(fmt.Sprint(flips), func(t *testing.T) {
			f := setup(t, 3)
			f.flip(1, flips)
			latest := f.Latest()
			next := setup(t, 0)
			if err := next.AdoptEvents(f.pack(t, "first"), "first"); err != nil {
				t.Fatal(err)
			}
			for _, after := range []uint64{0, 1, 2, 3, latest / 2, latest - 1, latest, latest + 1} {
				for _, id := range []site.StationID{0, 1, 2, 9} {
					want, wantGap := f.EventsSince(after, id)
					got, gap := next.EventsSince(after, id)
					if !slices.Equal(numbers(got), numbers(want)) || gap != wantGap {
						t.Errorf("after %d of station %d: %d events, gap %t; want %d, %t", after, id, len(got), gap, len(want), wantGap)
					}
					if len(got) > 0 && fmt.Sprint(got[0].State) != fmt.Sprint(want[0].State) {
						t.Errorf("after %d of station %d: %v, want %v", after, id, got[0].State, want[0].State)
					}
				}
			}
			if n, ok := next.Adopted("first"); n != latest || !ok {
				t.Errorf("the first run ended at %d, %t", n, ok)
			}
			if n, ok := next.Adopted("second"); ok {
				t.Errorf("an unknown run ended at %d", n)
			}
			if _, err := next.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 7, Locks: 1}); err != nil {
				t.Fatal(err)
			}
			if next.Latest() != latest+1 {
				t.Errorf("the next event is %d, want %d", next.Latest(), latest+1)
			}
			third := setup(t, 0)
			if err := third.AdoptEvents(next.pack(t, "second"), "second"); err != nil {
				t.Fatal(err)
			}
			if n, _ := third.Adopted("first"); n != latest {
				t.Errorf("the first run ended at %d", n)
			}
			if n, _ := third.Adopted("second"); n != latest+1 {
				t.Errorf("the second run ended at %d", n)
			}
		})
	}
}

// The runs that are remembered are bounded.
func TestService_AdoptEvents_runs(t *testing.T) {
	f := setup(t, 1)
	for i := range 20 {
		next := setup(t, 0)
		if err := next.AdoptEvents(f.pack(t, site.BootID(fmt.Sprint(i))), site.BootID(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		f = next
	}
	if _, ok := f.Adopted("3"); ok {
		t.Error("17 runs are remembered")
	}
	if _, ok := f.Adopted("4"); !ok {
		t.Error("16 runs are not remembered")
	}
}

// What would mislead the next run is not left to it.
func TestService_PackEvents_incomplete(t *testing.T) {
	f := setup(t, 1)
	f.pack(t, "first")
	f.flip(1, 1)
	if _, ok := f.PackEvents("first"); ok {
		t.Error("a state that is not saved was packed")
	}
	f.pack(t, "first")
	f.connect(t)
	if _, ok := f.PackEvents("first"); ok {
		t.Error("a station that is online was packed")
	}
}

// Whatever is damaged is refused and changes nothing.
func TestService_AdoptEvents_damaged(t *testing.T) {
	f := setup(t, 2)
	packed := f.pack(t, "first")
	next := setup(t, 0)
	for i := range packed {
		for _, damaged := range [][]byte{packed[:i], slices.Concat(packed[:i], []byte{packed[i] ^ 0xff}, packed[i+1:])} {
			if i < 10 && len(damaged) == len(packed) {
				continue // a header of gzip has parts that count for nothing
			}
			if err := next.AdoptEvents(damaged, "first"); err == nil {
				t.Errorf("%d bytes, damaged at %d, were adopted", len(damaged), i)
			}
		}
	}
	for _, text := range []string{
		`{}`, `[]`, `{"runs":[]}`, `{"runs":[{"boot":"first","latest":3}],"events":[]}`, `{"runs":[{"boot":"first","latest":1}],"events":[{},{}]}`,
	} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		if err := next.AdoptEvents(packed.Bytes(), "first"); err == nil {
			t.Errorf("%s was adopted", text)
		}
	}
	if err := next.AdoptEvents(packed, "between"); err == nil {
		t.Error("the events of another run than the last were adopted")
	}
	if next.Latest() != 0 {
		t.Errorf("the latest event is %d", next.Latest())
	}
}
