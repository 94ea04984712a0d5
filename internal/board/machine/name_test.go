package machine_test

import (
	"testing"

	"gatehouse/internal/board/machine"
)

func TestNetworkName(t *testing.T) {
	for system, want := range map[string]string{"Debian.example.test": "debian", "north-gate": "north-gate", "localhost": "", "localhost.localdomain": "", "": "", "a_b": "", `a\b`: ""} {
		if got := machine.NetworkNameOf(system); got != want {
			t.Errorf("%q: got %q, want %q", system, got, want)
		}
	}
}
