package kit_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) {
	os.Exit(await.Run(m))
}

// onOneProcessor runs the test that calls it in a process of its own with one processor,
// and leaves two to the tests beside it. It returns false in that process.
func onOneProcessor(t *testing.T) bool {
	t.Helper()
	if runtime.GOMAXPROCS(0) == 1 {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return true
}
