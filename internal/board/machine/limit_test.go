package machine_test

import (
	"math"
	"testing"

	"gatehouse/internal/board/machine"
)

// The unit lets the gateway have 300 MB, which carry as many stations as may connect.
func TestMostStations(t *testing.T) {
	for _, test := range []struct {
		memory uint64
		most   int
	}{
		{0, math.MaxInt32}, {64 << 20, 64}, {150_000_000, 1370}, {200_000_000, 2286}, {300 << 20, 4384}, {1 << 30, 18284},
	} {
		if got := machine.StationsIn(machine.LimitFor(test.memory)); got != test.most {
			t.Errorf("%d bytes carry %d stations, want %d", test.memory, got, test.most)
		}
	}
}
