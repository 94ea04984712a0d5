package consoletest_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/consoletest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// The buttons of the station that press plays: a wrong one, which must not be pressed, and
// a right one.
const (
	wrong = `.unlock[data-lock="1/lock-1"]`
	right = `.unlock[data-lock="1/lock-2"]`
)

// twoFrames waits until what has changed is drawn.
const twoFrames = `new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))`

// presser is a page on which half a second passes only when the test says so, and the
// station whose locks it shows.
type presser struct {
	*consoletest.Tab
	station *gatewaytest.Station
}

func newPresser(t *testing.T) *presser {
	t.Helper()
	h := consoletest.NewHouse(t)
	issued, err := h.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 1, Name: "North entrance", Locks: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := &presser{h.Tab(phone()), h.Dial(issued.MQTT)}
	p.SignIn(consoletest.Admin)
	p.Await(`document.querySelector('` + right + `[aria-disabled=false]')`)
	return p
}

// settle lets everything have stood for long, then holds the clock.
func (p *presser) settle() {
	p.T.Helper()
	p.Eval(`holdClock(false); for (let i = 0; i < 4; i++) passSecond()`, nil)
	p.Await(`document.querySelector('` + wrong + `[aria-disabled=false]') && document.querySelector('` + right + `[aria-disabled=false]')`)
	p.Eval(twoFrames+`.then(() => { stand(); stand(); stand(); holdClock(true); })`, nil)
}

// judge fails the test if the press that was just made has opened a door: the next command
// is that of the right button, which is pressed after it.
func (p *presser) judge(what string) {
	p.T.Helper()
	p.Await(`document.querySelector('.why.warn')?.innerText.includes('Press again')`)
	p.Eval(`stand(), stand(), stand()`, nil)
	p.TapOn(right)
	c := p.station.Command()
	if c.LockID != "lock-2" {
		p.T.Errorf("%s: a press opened %s", what, c.LockID)
		c = p.station.Command()
	}
	p.station.Ack(c)
	p.station.Result(c, "done", "unlocked")
	p.Await(`document.querySelector('` + right + `').innerText === 'Unlocked'`)
	p.Eval(`holdClock(false); for (let i = 0; i < 65; i++) passSecond()`, nil)
	p.Await(`document.querySelector('.link.live') && !document.querySelector('.why')`)
}

// A press counts only on a button that stood at that place, enabled, for half a second.
func TestPress(t *testing.T) {
	t.Parallel()
	p := newPresser(t)
	for what, change := range map[string]string{
		"something comes above": `{ const e = document.createElement('p'); e.textContent = 'News'; document.querySelector('.stations').before(e); }`,
		"the header grows":      `document.querySelector('header').append(document.createElement('h1'), 'News')`,
		"the page scrolls":      `{ document.querySelector('main').classList.add('card'); document.body.append(...Array.from({length: 40}, () => document.createElement('h1'))); scrollTo(0, 37); }`,
		"the text grows":        `document.documentElement.style.fontSize = '17px'`,
		"a scrollbar comes":     `document.body.style.paddingRight = '15px'`,
		"a dialog closes":       `document.querySelector('header button').click()`,
	} {
		p.settle()
		p.Eval(change, nil)
		p.Eval(twoFrames, nil)
		if what == "a dialog closes" {
			p.Press(kb.Escape)
			p.Await(`!document.querySelector('dialog')`)
		}
		p.Eval(twoFrames, nil)
		p.TapOn(wrong)
		p.judge(what)
	}
}

// The window changes in ways that only the browser knows: another zoom, another height.
func TestPress_window(t *testing.T) {
	t.Parallel()
	p := newPresser(t)
	for _, look := range []consoletest.Look{{Width: 360, Height: 600}, {Width: 330, Height: 740}, desktop(), {Width: 360, Height: 1500}} {
		p.settle()
		p.Look(look)
		p.TapOn(wrong)
		p.judge(fmt.Sprintf("the window is %s", look))
	}
	p.settle()
	p.Text200(true)
	p.Await(`getComputedStyle(document.documentElement).fontSize === '32px'`)
	p.TapOn(wrong)
	p.judge("the text is larger")
}

// After an outage a button has to be enabled for half a second, for keys too.
func TestPress_outage(t *testing.T) {
	t.Parallel()
	p := newPresser(t)
	for what, press := range map[string]func(){
		"a finger":        func() { p.TapOn(wrong) },
		"Enter":           func() { p.KeyDown('\r', false); p.KeyUp('\r') },
		"the space bar":   func() { p.KeyDown(' ', false); p.KeyUp(' ') },
		"a screen reader": func() { p.Eval(`document.querySelector('`+wrong+`').click()`, nil) },
	} {
		p.settle()
		p.Eval(`document.querySelector('`+wrong+`').focus()`, nil)
		cut(p.Tab)
		join(p.Tab)
		p.Await(`document.querySelector('` + wrong + `[aria-disabled=false]')`)
		press()
		p.judge(what)
	}
}

// A key opens a door at any place, because it aims at a lock; once, however long it is held.
func TestPress_keys(t *testing.T) {
	t.Parallel()
	p := newPresser(t)
	for what, press := range map[string]func(){
		"Enter": func() { p.KeyDown('\r', false) },
		"the space bar": func() {
			p.KeyDown(' ', false)
			p.KeyDown(' ', true)
			p.KeyUp(' ')
		},
		"a screen reader": func() { p.Eval(`document.querySelector('`+wrong+`').click()`, nil) },
	} {
		p.settle()
		p.Eval(`document.querySelector('.stations').before('News'); document.querySelector('`+wrong+`').focus()`, nil)
		press()
		c := p.station.Command()
		if c.LockID != "lock-1" {
			t.Errorf("%s opened %s", what, c.LockID)
		}
		p.station.Ack(c)
		p.station.Result(c, "done", "unlocked")
		p.Await(`document.querySelector('` + wrong + `').innerText === 'Unlocked'`)
		p.settle()
		p.KeyDown('\r', true) // it is still held
		p.KeyDown('\r', true)
		p.KeyUp('\r')
		p.settle()
		p.TapOn(right)
		if c = p.station.Command(); c.LockID != "lock-2" {
			t.Errorf("%s, held, opened %s", what, c.LockID)
		}
		p.station.Ack(c)
		p.station.Result(c, "done", "unlocked")
		p.Await(`document.querySelector('` + right + `').innerText === 'Unlocked'`)
	}
}

// finger notes in each frame which button that can be pressed is at one place, when a finger
// came there, and which door was opened then.
const finger = `
window.opened = [];
{
	const under = () => {
		const b = document.elementFromPoint(tapX, tapY)?.closest('.unlock');
		return b?.getAttribute('aria-disabled') === 'false' ? b.dataset.lock : '';
	};
	const frames = [];
	const frame = () => {
		frames.push([performance.now(), under()]);
		requestAnimationFrame(frame);
	};
	frame();
	let at = 0;
	addEventListener('pointerdown', () => { at = performance.now(); }, true);
	const send = fetch;
	window.fetch = (path, options) => {
		const found = /stations\/(\d+)\/locks\/(lock-\d+)\/unlock/.exec(path);
		if (found) opened.push({lock: found[1] + '/' + found[2], seen: frames.findLast(([when]) => when <= at - 500)?.[1] ?? ''});
		return send(path, options);
	};
}`

// jumps moves the list while the page is not connected, and back: what it must never do by itself.
const jumps = `{
	const e = document.createElement('div');
	document.querySelector('.stations').before(e);
	new MutationObserver(() => { e.style.height = document.querySelector('.link.live') ? '' : '86px'; })
		.observe(document.body, {subtree: true, attributeFilter: ['class']});
}`

// A tap in each of 600 frames around 20 outages never opens another lock than the one that
// was under the finger half a second before, also where the list jumps.
func TestTaps(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	for id := range site.StationID(3) {
		h.Station(id+1, "Haupteingang Bürogebäude Nord", 3, func(c *stationsim.Config) { c.DoorOpen = 1 })
	}
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	const aim = `.unlock[data-lock="1/lock-2"]`
	tab.Await(`document.querySelector('` + aim + `[aria-disabled=false]')`)
	x, y := tab.Middle(aim)
	tab.Eval(fmt.Sprintf("window.tapX = %v; window.tapY = %v; %s", x, y, finger), nil)
	for round := range 20 {
		if round == 10 {
			tab.Eval(jumps, nil)
		}
		tab.Eval(`for (let i = 0; i < 4; i++) passSecond()`, nil)
		cut(tab)
		for tap := range 30 {
			if tap == 5 {
				join(tab)
			}
			tab.Tap(x, y)
			tab.Eval(`stand(25); new Promise(requestAnimationFrame)`, nil)
		}
	}
	var opened []struct{ Lock, Seen string }
	tab.Eval("opened", &opened)
	for _, o := range opened {
		if o.Lock != o.Seen {
			t.Errorf("a tap opened %s, and half a second before there was %q under the finger", o.Lock, o.Seen)
		}
	}
	text, _ := json.Marshal(opened)
	t.Logf("%d opened: %s", len(opened), text)
	if len(opened) < 10 {
		t.Errorf("only %d of 600 taps opened a door", len(opened))
	}
}
