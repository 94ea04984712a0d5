package await

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Goroutines runs the tests of a package and ends the process, as [goleak.VerifyTestMain]
// does: a goroutine that is left is a failure. goleak alone looks for half a second, in which
// a busy machine does not end all that ends by itself.
func Goroutines(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(ending{m, options}, options...)
}

// ending is the tests of a package with the end of their goroutines.
type ending struct {
	tests   *testing.M
	options []goleak.Option
}

// Run implements [goleak.TestingM].
func (e ending) Run() (code int) {
	if code = e.tests.Run(); code != 0 {
		return code
	}
	end := time.NewTimer(Patience)
	defer end.Stop()
	for goleak.Find(e.options...) != nil {
		select {
		case <-end.C:
			return 0 // for goleak to name what is left
		default:
		}
	}
	return 0
}
