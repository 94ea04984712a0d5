package consoletest

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
)

// finding is one rule of the accessibility checker that a page breaks.
type finding struct {
	ID, Help string
	Nodes    []struct {
		HTML           string
		FailureSummary string
	}
}

// axeRun checks WCAG 2.2 A and AA, and what is known as good practice.
const axeRun = `axe.run(document, {preload: false, resultTypes: ['violations'],
	runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
	.then(r => JSON.parse(JSON.stringify(r.violations)))`

// Axe fails the test for every finding of the accessibility checker on the page; what
// says which page that is. The checker runs in a world of its own, so that neither the
// page nor its content policy meets it.
func (tab *Tab) Axe(what string) {
	tab.T.Helper()
	tree := call(tab, page.GetFrameTree, cdp.Empty{})
	world := call(tab, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
	tab.must(tab.tryEval(axe(tab.T)+"\n;0", world.ExecutionContextID, nil))
	var findings []finding
	tab.must(tab.tryEval(axeRun, world.ExecutionContextID, &findings))
	for _, f := range findings {
		for _, node := range f.Nodes {
			tab.T.Errorf("%s: %s (%s): %.300s\n%s", what, f.ID, f.Help, node.HTML, node.FailureSummary)
		}
	}
}
