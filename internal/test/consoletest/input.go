package consoletest

import (
	"fmt"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// named returns an expression for the first element that matches a selector, can be seen,
// and has a text as its name: its aria-label, its label or what it shows.
func named(selector, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].find(e => {
		const names = [e.getAttribute('aria-label'), ...(e.labels?.length ? [...e.labels].map(l => l.innerText) : [e.innerText])];
		return e.checkVisibility({visibilityProperty: true}) && names.some(n => n && n.includes(%q));
	})`, selector, text)
}

// Click clicks in the middle of the element with that name, once it can be seen,
// stands still for half a second, is enabled and nothing covers it.
func (tab *Tab) Click(selector, text string) {
	tab.T.Helper()
	tab.find(selector, text)
	tab.Eval("stand()", nil)
	tab.click()
}

// find waits until a click on that element would reach it.
func (tab *Tab) find(selector, text string) {
	tab.T.Helper()
	tab.Await(`(async () => {
		const e = ` + named(selector, text) + `;
		if (!e || e.disabled) return false;
		e.scrollIntoView({block: 'center'});
		const middle = () => {
			const box = e.getBoundingClientRect();
			return [box.x + box.width / 2, box.y + box.height / 2];
		};
		window.clickAt = middle();
		for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
		if (String(middle()) !== String(window.clickAt)) return false;
		const top = document.elementFromPoint(...window.clickAt);
		return top === e || e.contains(top) || top?.closest('label')?.control === e;
	})()`)
}

// click clicks where the element that was found is.
func (tab *Tab) click() {
	tab.T.Helper()
	var at [2]float64
	tab.Eval("window.clickAt", &at)
	for _, kind := range []input.DispatchMouseEventType{chromedp.MousePressed, chromedp.MouseReleased} {
		call(tab, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: kind, X: at[0], Y: at[1], Button: input.MouseButtonLeft, ClickCount: 1,
		})
	}
}

// Tap taps with a finger at a place in the window.
func (tab *Tab) Tap(x, y float64) {
	tab.T.Helper()
	call(tab, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type: input.DispatchTouchEventTypeTouchStart, TouchPoints: []*input.TouchPoint{{X: x, Y: y}},
	})
	call(tab, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type: input.DispatchTouchEventTypeTouchEnd, TouchPoints: []*input.TouchPoint{},
	})
}

// TapOn taps in the middle of the first element that matches a selector, wherever that is now.
func (tab *Tab) TapOn(selector string) {
	tab.T.Helper()
	tab.Tap(tab.Middle(selector))
}

// Middle returns the middle of the first element that matches a selector.
func (tab *Tab) Middle(selector string) (x, y float64) {
	tab.T.Helper()
	var at [2]float64
	tab.Eval(fmt.Sprintf(`(({ x, y, width, height }) => [x + width / 2, y + height / 2])(document.querySelector(%q).getBoundingClientRect())`, selector), &at)
	return at[0], at[1]
}

// KeyDown presses a key at once; again says that it repeats itself, because it is held.
func (tab *Tab) KeyDown(key rune, again bool) {
	tab.T.Helper()
	events := kb.Encode(key)
	for _, event := range events[:len(events)-1] {
		down := *event
		down.AutoRepeat = &again
		call(tab, input.DispatchKeyEvent, down)
	}
}

// KeyUp releases a key.
func (tab *Tab) KeyUp(key rune) {
	tab.T.Helper()
	events := kb.Encode(key)
	call(tab, input.DispatchKeyEvent, *events[len(events)-1])
}

// Fill replaces what is in the field with that label.
func (tab *Tab) Fill(label, text string) {
	tab.T.Helper()
	field := named("input, textarea, select", label)
	tab.Await(field)
	tab.Eval(`{ const e = `+field+`; e.focus(); e.select?.(); }`, nil)
	tab.Type(text)
}

// Type types a text where the focus is.
func (tab *Tab) Type(text string) {
	tab.T.Helper()
	call(tab, input.InsertText, input.InsertTextParams{Text: text})
}

// Press presses keys, such as kb.Tab or kb.Enter, one after the other, on what has stood for
// half a second.
func (tab *Tab) Press(keys string) {
	tab.T.Helper()
	tab.Eval("stand()", nil)
	ctx, cancel := tab.within()
	defer cancel()
	tab.must(chromedp.Do(ctx, chromedp.KeyEvent(keys)))
}

// Screenshot returns a picture of the page as PNG: of all of it, or only of what the
// window shows.
func (tab *Tab) Screenshot(whole bool) []byte {
	tab.T.Helper()
	return call(tab, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole}).Data
}

// Choose chooses in the list with that label, by the value of the choice.
func (tab *Tab) Choose(label, value string) {
	tab.T.Helper()
	list := named("select", label)
	tab.Await(list)
	tab.Eval(fmt.Sprintf(`{ const e = %s; e.value = %q; e.dispatchEvent(new Event('change', {bubbles: true})); }`, list, value), nil)
}

// TabTo presses the Tab key until the focus is on what has that name.
func (tab *Tab) TabTo(name string) {
	tab.T.Helper()
	tab.Await(named("input, textarea, select, button, a, summary", name))
	for range 60 {
		var there bool
		tab.Eval(fmt.Sprintf(`(() => {
			const e = document.activeElement;
			return [e.getAttribute('aria-label'), ...[...(e.labels || [])].map(l => l.innerText), e === document.body ? '' : e.innerText].some(n => n && n.startsWith(%q));
		})()`, name), &there)
		if there {
			return
		}
		tab.Press(kb.Tab)
	}
	tab.T.Fatalf("the Tab key does not reach %q on\n%s", name, tab.Text())
}

// Attach chooses a file in the field with that label.
func (tab *Tab) Attach(label, path string) {
	tab.T.Helper()
	field := named("input[type=file]", label)
	tab.Await(field)
	found := call(tab, runtime.Evaluate, runtime.EvaluateParams{Expression: field})
	call(tab, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{path}, ObjectID: found.Result.ObjectID})
}
