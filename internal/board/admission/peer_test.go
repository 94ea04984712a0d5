package admission_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/admission"
)

// The expected round trip is the one that was measured, longer where it varies, and not
// longer because the client delays its acknowledgements or because little was measured.
func TestRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		least, mean, deviation uint32 // in microseconds
		atLeast, atMost        time.Duration
	}{
		"never measured":                       {0, 0, 0, 300 * time.Millisecond, 300 * time.Millisecond},
		"measured once":                        {60_000, 60_000, 30_000, 60 * time.Millisecond, 70 * time.Millisecond},
		"delayed acknowledgements by 40 ms":    {60_000, 99_000, 800, 60 * time.Millisecond, 70 * time.Millisecond},
		"a radio link between 40 and 120 ms":   {42_000, 80_000, 20_000, 120 * time.Millisecond, 170 * time.Millisecond},
		"the mean has forgotten a slow minute": {9_000, 8_000, 500, 8 * time.Millisecond, 18 * time.Millisecond},
	} {
		got := admission.RoundTrip(&unix.TCPInfo{Min_rtt: c.least, Rtt: c.mean, Rttvar: c.deviation})
		if got < c.atLeast || got > c.atMost {
			t.Errorf("%s: %s, want %s to %s", name, got, c.atLeast, c.atMost)
		}
	}
}
