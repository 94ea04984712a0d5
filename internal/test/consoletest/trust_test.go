package consoletest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/test/consoletest"
)

// The page about trust, before and after the device trusts the gateway.
func TestTrustPage(t *testing.T) {
	t.Parallel()
	h := consoletest.NewEmptyHouse(t)
	tab := h.Tab(phone())
	for _, look := range consoletest.Looks() {
		tab.Look(look)
		tab.Open("/trust")
		tab.AwaitText("Yes: this device trusts the gateway.")
		tab.Eval(`document.querySelectorAll('details').forEach(d => d.open = true)`, nil)
		tab.Axe(fmt.Sprintf("trusted, %s", look))
		tab.Await(`document.documentElement.scrollWidth <= innerWidth`)
		keep(t, tab, "trust-"+look.String())
		tab.Eval(`document.getElementById('image').dispatchEvent(new Event('error'))`, nil)
		tab.AwaitText("Not yet. This page tests again every few seconds.")
		tab.Axe(fmt.Sprintf("not trusted, %s", look))
	}
}

// keep writes a picture of the page, where GATEHOUSETEST_SCREENSHOTS names a folder.
func keep(t *testing.T, tab *consoletest.Tab, name string) {
	t.Helper()
	folder := os.Getenv("GATEHOUSETEST_SCREENSHOTS")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), tab.Screenshot(true), 0o600); err != nil {
		t.Fatal(err)
	}
}
