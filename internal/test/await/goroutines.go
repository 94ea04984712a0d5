package await

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Run runs the tests of a package and returns its exit status. A goroutine that is left then
// is a failure. Goroutines that are about to end have until [Patience]; goleak alone looks
// for half a second, which is too short for a busy machine.
func Run(m *testing.M) (code int) {
	if code = m.Run(); code != 0 {
		return code
	}
	if err := ended(); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
		return 1
	}
	return 0
}

// NoGoroutines waits until this goroutine is the only one, and is an error of the test where
// others are left.
func NoGoroutines(t testing.TB) {
	t.Helper()
	if err := ended(); err != nil {
		t.Error(err)
	}
}

// ended waits for the end of all other goroutines and returns those that are left.
func ended() error {
	for end := Deadline(); ; {
		err := goleak.Find()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
