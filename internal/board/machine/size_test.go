package machine_test

import (
	"testing"

	"gatehouse/internal/board/machine"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 256_000_000: "256.0 MB", 1 << 40: "1.1 TB"} {
		if got := machine.Size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
