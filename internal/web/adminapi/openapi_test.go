package adminapi_test

import (
	"os"
	"slices"
	"testing"

	"gatehouse/internal/test/webtest"
	"gatehouse/internal/web/adminapi"
)

// The description and the route tables name the same operations. Every answer of the tests
// of this package is held to it, see house.send.
func TestOpenAPI(t *testing.T) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	h := open(t)
	webtest.Describe(t, "openapi.json").Complete(t, adminapi.Prefix, slices.Concat(h.api.Routes(adminapi.Socket), h.api.Routes(adminapi.Web)))
	h.want(h.do("GET", "/admin/v1/openapi.json", ""), 200, string(text[:len(text)-1]))
}
