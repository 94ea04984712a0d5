package consoletest_test

import (
	"fmt"
	"strings"
	"testing"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/consoletest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// watchPlaces notes in each frame which buttons that open a door are not where they were,
// and why that may be: what the connection is then. New ones may come after them.
const watchPlaces = `
window.moved = [];
{
	const places = () => [...document.querySelectorAll('.unlock')].map(b => {
		const { x, y, width, height } = b.getBoundingClientRect();
		return [b.dataset.lock, ...[x + scrollX, y + scrollY, width, height].map(n => n.toFixed(1))].join(' ');
	});
	const first = places();
	window.watched = first.length;
	window.watching = {};
	const mine = watching;
	const look = () => {
		if (watching !== mine) return;
		const now = places();
		first.forEach((place, i) => place === now[i] || moved.length > 5 ||
			moved.push(document.querySelector('.link').innerText + ': ' + place + ' became ' + now[i]));
		requestAnimationFrame(look);
	};
	look();
}`

// stillHouse is a house with 42 stations whose names are long.
type stillHouse struct {
	*consoletest.House
	porch *gatewaytest.Station // station 1, which the test plays
}

func newStillHouse(t *testing.T) *stillHouse {
	t.Helper()
	h := &stillHouse{House: consoletest.NewHouse(t)}
	names := []string{"Haupteingang Bürogebäude Nord, Treppenhaus", "Seminarraum Obergeschoss Westflügel", "Fahrradkeller Hinterhof links", "Donaudampfschifffahrtsgesellschaft"}
	for i := range 42 {
		id := site.StationID(i + 1)
		issued, err := h.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: id, Name: fmt.Sprintf("%s %d", names[i%len(names)], id), Locks: 3})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 0:
			h.porch = h.Dial(issued.MQTT)
		case i < 12:
			h.Play(id, issued.MQTT.Password, 3, func(c *stationsim.Config) { c.DoorOpen = 1 })
		}
	}
	for i := range 12 {
		h.AwaitOnline(site.StationID(i+1), true)
	}
	return h
}

// report has station 1 report a voltage, which a page that is live shows.
func (h *stillHouse) report(tab *consoletest.Tab, millivolts int) {
	h.T.Helper()
	h.porch.Publish("report", fmt.Appendf(nil, `{"batteryVoltage":%d.%03d}`, millivolts/1000, millivolts%1000))
	tab.Await(fmt.Sprintf(`document.body.textContent.includes("%d.%02d V")`, millivolts/1000, millivolts%1000/10))
}

// refuse presses the first button of station 1, which refuses.
func (h *stillHouse) refuse(tab *consoletest.Tab) {
	h.T.Helper()
	tab.Click("button", "Unlock: Haupteingang Bürogebäude Nord, Treppenhaus 1, Lock 1")
	h.porch.Result(h.porch.Command(), "refused", "locked")
	tab.Await(`document.querySelector('.why.bad')`)
}

// cut ends the connection of the page; join brings it back.
func cut(tab *consoletest.Tab) {
	tab.T.Helper()
	tab.Block("/admin/v1/*", "/local/v1/*")
	tab.Eval(`dispatchEvent(new Event('online'))`, nil)
	tab.Await(`document.querySelector('.link.lost') && document.querySelector('.unlock[aria-disabled=true]')`)
}

func join(tab *consoletest.Tab) {
	tab.T.Helper()
	tab.Block()
	tab.Await(`document.querySelector('.link.live')`)
}

// stands fails the test if a button has moved since watchPlaces.
func stands(tab *consoletest.Tab, what string) {
	tab.T.Helper()
	var moved []string
	tab.Eval(twoFrames+`.then(() => moved)`, &moved)
	if len(moved) > 0 {
		tab.T.Errorf("%s: a button has moved:\n%s", what, strings.Join(moved, "\n"))
	}
	tab.Eval("moved.length = 0", nil)
}

// No button that opens a door moves by itself: not before, during and after an outage, not
// while ages grow, not with an error and when that goes.
func TestStill(t *testing.T) {
	t.Parallel()
	h := newStillHouse(t)
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	for _, look := range []consoletest.Look{phone(), desktop()} {
		for _, large := range []bool{false, true} {
			tab.Look(look)
			tab.Text200(large)
			for _, address := range []string{"/#/doors", "/#/station/1"} {
				tab.Open(address)
				tab.Await(`document.querySelector('.link.live') && document.querySelectorAll('.unlock').length >= 3 && !document.querySelector('.wait')`)
				h.watch(tab, fmt.Sprintf("%s, %v, large %v", address, look, large))
			}
		}
	}
}

func (h *stillHouse) watch(tab *consoletest.Tab, what string) {
	h.T.Helper()
	tab.Eval(watchPlaces, nil)
	h.report(tab, 3700)
	cut(tab)
	stands(tab, what+", disconnected")
	join(tab)
	stands(tab, what+", connected again")
	h.refuse(tab)
	stands(tab, what+", with an error")
	for second := range 75 {
		tab.Eval("passSecond()", nil)
		if second%10 == 9 {
			h.report(tab, 3000+10*second)
		}
	}
	tab.Await(`!document.querySelector('.why')`)
	stands(tab, what+", while ages grow")
}

// What changes while somebody looks moves no button either: a station that is renamed, removed
// or added, locks that come and go, a lock that no longer matches the search.
func TestStill_changes(t *testing.T) {
	t.Parallel()
	h := newStillHouse(t)
	change := func(id site.StationID, p adminapi.StationPatch) {
		if _, err := h.Admin.UpdateStation(t.Context(), id, p); err != nil {
			t.Fatal(err)
		}
	}
	one, three, five, zulu := 1, 3, 5, "Zulu, und ein Name, der in keine Zeile passt und in keine zweite"
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Await(`document.querySelectorAll('.station').length === 42`)
	tab.Eval(watchPlaces, nil)
	change(2, adminapi.StationPatch{Name: &zulu})
	tab.Await(`[...document.querySelectorAll('.unlock')].some(b => b.getAttribute('aria-label').includes('Zulu'))`)
	change(3, adminapi.StationPatch{Locks: &five})
	tab.Await(`document.querySelector('.unlock[data-lock="3/lock-5"]')`)
	change(4, adminapi.StationPatch{Locks: &one})
	tab.Await(`document.querySelector('.unlock[data-lock="4/lock-3"]').innerText === 'Not available'`)
	if err := h.Admin.RemoveStation(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	tab.Await(`document.querySelector('.unlock[data-lock="5/lock-1"]').innerText === 'Not available'`)
	if _, err := h.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 100, Name: "Aachen", Locks: 1}); err != nil {
		t.Fatal(err)
	}
	tab.Await(`[...document.querySelectorAll('.unlock')].at(-1).dataset.lock === '100/lock-1'`)
	tab.Click("button", "Account")
	tab.Await(`document.querySelector('dialog')`)
	tab.Click("dialog button", "Close")
	tab.Await(`!document.querySelector('dialog')`)
	stands(tab, "the list changes")

	tab.Fill("Find a door", "online")
	tab.Await(`document.querySelectorAll('.station:not([hidden])').length < 12 && !document.querySelector('.unlock[data-lock="5/lock-1"]')`)
	tab.Eval(watchPlaces, nil)
	_ = h.porch.Conn.Close()
	tab.Await(`document.querySelector('.unlock[data-lock="1/lock-1"]').innerText === 'Offline'`)
	stands(tab, "a search")

	tab.Visit("#/station/2")
	tab.Eval(watchPlaces, nil)
	zulu += ", denn er ist noch viel länger"
	change(2, adminapi.StationPatch{Name: &zulu})
	tab.AwaitText("noch viel länger")
	change(2, adminapi.StationPatch{Locks: &five})
	tab.Await(`document.querySelectorAll('.unlock').length === 5`)
	change(2, adminapi.StationPatch{Locks: &three})
	tab.Await(`document.querySelectorAll('.unlock').length === 3`)
	stands(tab, "the page of a station")
}
