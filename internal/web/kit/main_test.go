package kit_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A server of net/http that closes a connection sleeps 500 ms before it does (golang.org/issue/3595),
// longer than goleak waits for a goroutine to end.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
