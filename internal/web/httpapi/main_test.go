package httpapi_test

import (
	"testing"

	"go.uber.org/goleak"

	"gatehouse/internal/access"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/web/httpapi"
)

// The services that the assembly plugs in.
var (
	_ httpapi.Access   = (*access.Service)(nil)
	_ httpapi.Stations = (*station.Service)(nil)
	_ httpapi.Unlocker = (*unlock.Service)(nil)
)

// A server of net/http that closes a connection sleeps 500 ms before it does (golang.org/issue/3595),
// longer than goleak waits for a goroutine to end.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
