package httpapi_test

import (
	"os"
	"testing"

	"gatehouse/internal/access"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/httpapi"
)

// The services that the assembly plugs in.
var (
	_ httpapi.Access   = (*access.Service)(nil)
	_ httpapi.Stations = (*station.Service)(nil)
	_ httpapi.Unlocker = (*unlock.Service)(nil)
)

func TestMain(m *testing.M) {
	os.Exit(await.Run(m))
}
