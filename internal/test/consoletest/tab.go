package consoletest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"

	"gatehouse/internal/test/await"
)

// Look is how a tab shows a page.
type Look struct {
	Width, Height int64
	Dark          bool
}

// Looks returns what every page is looked at in.
func Looks() []Look {
	return []Look{{360, 740, false}, {360, 740, true}, {1280, 800, false}, {1280, 800, true}}
}

func (l Look) String() string {
	return fmt.Sprintf("%dx%d-%s", l.Width, l.Height, map[bool]string{false: "light", true: "dark"}[l.Dark])
}

// Tab is a tab with cookies of its own. Not safe for concurrent use.
type Tab struct {
	T testing.TB

	origin string
	ctx    context.Context

	mu    sync.Mutex
	wrong []string // what must not happen in a page
}

// watcher runs before every page. It keeps violations, and that an unlock succeeded, which
// the page shows for three seconds. It lets a test set the clocks of the page forward, as
// they are when a phone wakes up, let one second pass with all that is due in it, hold the
// clock that measures how long a button has stood, and set that half a second forward. No
// request of the page takes too long.
const watcher = `
window.violations = [];
document.addEventListener('securitypolicyviolation', e =>
	window.violations.push(e.effectiveDirective + ' ' + e.blockedURI + ' ' + e.sample));
window.unlocked = false;
new MutationObserver(() => { window.unlocked ||= !!document.querySelector('.unlock.ok'); })
	.observe(document, {subtree: true, childList: true, attributeFilter: ['class']});
AbortSignal.timeout = () => new AbortController().signal;
{
	let ahead = 0, stood = 0, held = null;
	const real = Date, clock = performance.now.bind(performance), timers = new Map(), ticks = [];
	const { setTimeout: start, clearTimeout: stop, setInterval: repeat } = window;
	window.setClockAhead = ms => { ahead = ms; };
	window.holdClock = yes => { held = yes ? clock() : null; };
	window.stand = (ms = 500) => { stood += ms; };
	window.Date = class extends real {
		constructor(...given) { super(...(given.length ? given : [real.now() + ahead])); }
		static now() { return real.now() + ahead; }
	};
	performance.now = () => (held ?? clock()) + ahead + stood;
	window.clearTimeout = id => { timers.delete(id); stop(id); };
	window.setTimeout = (run, ms = 0, ...given) => {
		const id = start(() => { timers.delete(id); run(...given); }, ms);
		timers.set(id, {due: performance.now() + ms, run: () => run(...given)});
		return id;
	};
	window.setInterval = (run, ms) => { ticks.push(run); return repeat(run, ms); };
	window.passSecond = () => {
		ahead += 1000;
		for (const [id, {due, run}] of timers) if (due <= performance.now()) { clearTimeout(id); run(); }
		for (const tick of ticks) tick();
	};
}`

// NewTab opens a tab on an origin, such as "https://127.0.0.1:8443". The test fails if a
// page breaks the content policy, logs an error or sends a request to another origin.
func NewTab(t testing.TB, origin string, look Look) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(sharedBrowser(t), chromedp.WithNewBrowserContext())
	tab := &Tab{T: t, origin: origin, ctx: ctx}
	t.Cleanup(func() {
		tab.Check()
		cancel()
	})
	tab.must(chromedp.Do(ctx))
	tab.must(chromedp.Listen(ctx, tab.heard))
	call(tab, network.Enable, network.EnableParams{})
	call(tab, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
	call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watcher})
	tab.Look(look)
	return tab
}

func (tab *Tab) must(err error) {
	tab.T.Helper()
	if err != nil {
		tab.T.Fatal(err)
	}
}

// within returns the context of one call to the browser.
func (tab *Tab) within() (context.Context, context.CancelFunc) {
	return context.WithDeadline(tab.ctx, await.Deadline()) // real time: that of await, also while the test ends
}

// call runs a command of the debugging protocol.
func call[P, R any](tab *Tab, command cdp.Command[P, R], params P) R {
	tab.T.Helper()
	ctx, cancel := tab.within()
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		tab.T.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// Look changes how the tab shows the page.
func (tab *Tab) Look(look Look) {
	tab.T.Helper()
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: look.Width, Height: look.Height, DeviceScaleFactor: 1, Mobile: look.Width < 600,
	})
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}, //nolint:misspell // CSS spells it so
	}})
}

// Text200 sets the text of the browser to 200 %, or back.
func (tab *Tab) Text200(yes bool) {
	tab.T.Helper()
	size := int64(16)
	if yes {
		size *= 2
	}
	call(tab, page.SetFontSizes, page.SetFontSizesParams{FontSizes: &page.FontSizes{Standard: size, Fixed: size}})
}

// Freeze freezes the page, as a phone does with one that nobody looks at, or wakes it.
func (tab *Tab) Freeze(frozen bool) {
	tab.T.Helper()
	state := page.SetWebLifecycleStateStateActive
	if frozen {
		state = page.SetWebLifecycleStateStateFrozen
	}
	call(tab, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: state})
	if !frozen {
		// It is seen again, which the browser of a test does not know.
		tab.Eval(`Object.defineProperty(document, 'hidden', {get: () => false}); document.dispatchEvent(new Event('visibilitychange'))`, nil)
	}
}

// Block fails the requests to paths of these patterns, such as "/admin/v1/*"; without one,
// none any more.
func (tab *Tab) Block(paths ...string) {
	tab.T.Helper()
	patterns := []*network.BlockPattern{}
	for _, path := range paths {
		patterns = append(patterns, &network.BlockPattern{URLPattern: "*://*:*" + path, Block: true})
	}
	call(tab, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: patterns})
}

// Open opens a page of the gateway, such as "/#/doors", and waits for its first content.
func (tab *Tab) Open(path string) {
	tab.T.Helper()
	ctx, cancel := tab.within()
	defer cancel()
	tab.must(chromedp.Do(ctx, chromedp.Navigate(tab.origin+path)))
	tab.Await(`document.readyState === 'complete' && document.querySelector('h1')`)
}

// Eval runs an expression in the page, awaiting a promise, and decodes its value into
// out, which may be nil.
func (tab *Tab) Eval(expression string, out any) {
	tab.T.Helper()
	tab.must(tab.tryEval(expression, 0, out))
}

func (tab *Tab) tryEval(expression string, world runtime.ExecutionContextID, out any) error {
	ctx, cancel := tab.within()
	defer cancel()
	yes := true
	answer, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ContextID: world, ReturnByValue: &yes, AwaitPromise: &yes, UserGesture: &yes,
	})
	if err != nil {
		return err
	}
	if answer.ExceptionDetails != nil {
		return fmt.Errorf("%.200s: %v", expression, describe(answer.ExceptionDetails))
	}
	if out == nil || answer.Result == nil || len(answer.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(answer.Result.Value, out)
}

func describe(e *runtime.ExceptionDetails) string {
	if e.Exception != nil && e.Exception.Description != "" {
		return e.Exception.Description
	}
	return e.Text
}

// Await waits until an expression, or what it promises, is true in the page, however often
// that is replaced.
func (tab *Tab) Await(expression string) {
	tab.T.Helper()
	var yes bool
	var err error
	defer func() {
		if !yes {
			tab.T.Logf("%v on the page\n%s", err, tab.Text())
		}
	}()
	await.Until(tab.T, expression, func() bool {
		err = tab.tryEval("Promise.resolve("+expression+").then(Boolean)", 0, &yes)
		return err == nil && yes
	})
}

// AwaitText waits until the page shows a text.
func (tab *Tab) AwaitText(text string) {
	tab.T.Helper()
	tab.Await(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// Text returns what the page shows.
func (tab *Tab) Text() (text string) {
	if err := tab.tryEval("document.body.innerText", 0, &text); err != nil {
		return err.Error()
	}
	return text
}

// heard notes what must not happen.
func (tab *Tab) heard(event any) {
	what := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !tab.ours(e.Request.URL) {
			what = "a request to " + e.Request.URL
		}
	case *runtime.EventExceptionThrown:
		what = "an exception: " + describe(e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			what = "the console: " + string(e.Args[0].Value) + e.Args[0].Description
		}
	case *cdplog.EventEntryAdded: // an answer such as 401 is an entry of the network
		if e.Entry.Source != cdplog.EntrySourceNetwork && e.Entry.Level == cdplog.EntryLevelError {
			what = "the browser: " + e.Entry.Text
		}
	}
	if what != "" {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		tab.wrong = append(tab.wrong, what)
	}
}

// ours reports whether a request stays at the gateway.
func (tab *Tab) ours(url string) bool {
	return strings.HasPrefix(url, tab.origin+"/") || strings.HasPrefix(url, "data:") || strings.HasPrefix(url, "blob:"+tab.origin+"/")
}

// Check fails the test if something has happened that must not.
func (tab *Tab) Check() {
	tab.T.Helper()
	var violations []string
	if err := tab.tryEval("window.violations || []", 0, &violations); err != nil {
		tab.T.Error(err)
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, v := range violations {
		tab.T.Error("against the content policy: " + v)
	}
	for _, what := range tab.wrong {
		tab.T.Error(what)
	}
	tab.wrong = nil
}
