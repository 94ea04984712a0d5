package machine_test

import (
	"testing"

	"gatehouse/internal/board/machine"
)

// This process needs at least what it has just used, and no more than there is.
func TestResidentMemory(t *testing.T) {
	block := make([]byte, 32<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	if used := machine.ResidentMemory(); used < uint64(len(block)) || used > 16<<30 {
		t.Errorf("this process has %d bytes, with %d in use", used, len(block))
	}
	if block[4096] != 1 {
		t.Fail()
	}
}
