package consoletest_test

import (
	"testing"

	"gatehouse/internal/test/consoletest"
)

// The page of the API draws the three descriptions, and finds what is asked for.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	h := consoletest.NewEmptyHouse(t)
	tab := h.Tab(phone())
	tab.Open("/docs")
	for name, title := range map[string]string{"v1": "Gatehouse /v1", "admin": "Gatehouse /admin/v1"} {
		tab.Eval("location.hash = '"+name+"'", nil)
		tab.AwaitText(title)
		tab.Axe("docs-" + name)
	}
	tab.Eval("location.hash = 'local'", nil)
	tab.AwaitText("Gatehouse /local/v1")
	tab.Eval(`document.querySelectorAll('details').forEach(d => d.open = true)`, nil)
	tab.Await(`[...document.querySelectorAll('details')].every(d => d.querySelector('pre'))`)
	look(tab, "docs")
	tab.Eval(`location.hash = 'local/watch'`, nil)
	tab.Await(`document.activeElement.textContent.includes('/local/v1/watch') && document.activeElement.parentElement.open`)
	tab.Eval(`location.hash = 'admin'`, nil)
	tab.AwaitText("Gatehouse /admin/v1")
	tab.Fill("Search", "integration token remove {name}")
	tab.Await(`document.querySelectorAll('details').length === 1 && document.querySelector('details').textContent.includes('/admin/v1/tokens/{name}')`)
	tab.Check()
}
