package consoletest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/need"
)

// shared is the one browser of the process, and the accessibility checker.
var shared struct { //nolint:gochecknoglobals // one browser for all tests
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
	dir    string
	axe    string
}

// needBrowser needs the browser and what fetches the accessibility checker, and returns the
// path of the browser.
func needBrowser(t testing.TB) string {
	t.Helper()
	return need.Program(t, "chromium", "npm")
}

// sharedBrowser starts the browser of the process, once, and returns its context.
func sharedBrowser(t testing.TB) context.Context {
	t.Helper()
	chromium := needBrowser(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.ctx != nil {
		return shared.ctx
	}
	dir, err := os.MkdirTemp("", "gatehouse-console-") //nolint:usetesting // outlives the first test
	if err != nil {
		t.Fatal(err)
	}
	shared.dir = dir
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.WSURLReadTimeout(await.Patience), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-field-trial-config", true), chromedp.Flag("no-pings", true),
		chromedp.Flag("lang", "en-GB"))
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	shared.ctx, shared.cancel = ctx, func() { cancel(); cancelAllocator() }
	return ctx
}

// Close ends the browser. A TestMain calls it last.
func Close() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.ctx != nil {
		_ = chromedp.Cancel(shared.ctx)
		shared.cancel()
		_ = os.RemoveAll(shared.dir)
	}
}

// axe returns the text of the accessibility checker that scripts/axe fetches.
func axe(t testing.TB) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.axe != "" {
		return shared.axe
	}
	script := exec.CommandContext(t.Context(), filepath.Join(root(t), "scripts", "axe"))
	script.Stderr = os.Stderr
	path, err := script.Output()
	if err != nil {
		t.Fatalf("axe-core is missing: run scripts/axe and see why: %v", err)
	}
	text, err := os.ReadFile(strings.TrimSpace(string(path)))
	if err != nil {
		t.Fatal(err)
	}
	shared.axe = string(text)
	return shared.axe
}

// root returns the root of the tree.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
