package consoletest_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/consoletest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// furnish fills a house with what a site has after a day.
func furnish(h *consoletest.House) {
	h.T.Helper()
	h.Station(1042, "North entrance", 2, nil)
	h.Station(1043, "Garage", 1, nil)
	h.Station(1050, "Bicycle cellar", 1, nil)
	if _, err := h.Admin.AddStation(h.T.Context(), adminapi.NewStation{StationID: 1051, Name: "Garden gate", Locks: 1}); err != nil {
		h.T.Fatal(err)
	}
	hours, err := site.ParseSchedule("Mon-Fri 08:00-18:00, Sat 10:00-14:00")
	if err != nil {
		h.T.Fatal(err)
	}
	h.Allow(1042, adminapi.GrantTerms{Hours: hours})
	h.Allow(1043, adminapi.GrantTerms{Until: site.At(time.Date(2099, 6, 30, 22, 0, 0, 0, time.UTC))})
	for _, email := range []string{"cleaning@example.test", "anna.schmidt-hohenberg@hausverwaltung.example"} {
		if _, err := h.Admin.AddAccount(h.T.Context(), adminapi.NewAccount{Email: email, Password: gatewaytest.Password}); err != nil {
			h.T.Fatal(err)
		}
	}
	h.Login()
	for _, id := range []site.StationID{1042, 1043, 1051} {
		if _, err := h.Admin.Unlock(h.T.Context(), id, 1); err != nil {
			h.T.Fatal(err)
		}
	}
}

// pages returns the pages of an administrator; each is an address and the name of its pictures.
func pages() map[string]string {
	return map[string]string{
		"#/doors": "doors", "#/station/1042": "station", "#/station/add": "add", "#/people": "people",
		"#/people/" + consoletest.Porter: "person", "#/journal": "journal", "#/journal?show=alarms&station=1043": "filter", "#/gateway": "gateway",
	}
}

// look looks at the page in every size and scheme: the accessibility checker finds
// nothing, nothing is wider than the window. With GATEHOUSETEST_SCREENSHOTS it leaves
// pictures in that folder.
func look(tab *consoletest.Tab, name string) {
	tab.T.Helper()
	for _, l := range consoletest.Looks() {
		tab.Look(l)
		tab.Eval("scrollTo(0, 0)", nil) // or the header covers something
		what := name + "-" + l.String()
		tab.Axe(what)
		var width int64
		tab.Eval("document.documentElement.scrollWidth", &width)
		if width > l.Width {
			tab.T.Errorf("%s: the page is %d wide", what, width)
		}
		if folder := os.Getenv("GATEHOUSETEST_SCREENSHOTS"); folder != "" {
			if err := os.WriteFile(filepath.Join(folder, what+".png"), tab.Screenshot(true), 0o600); err != nil {
				tab.T.Error(err)
			}
		}
	}
}

// Every page passes the accessibility checker in every size and scheme: as it is, when
// the gateway refuses to answer it, and when what it shows is not current.
func TestPages(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	furnish(h)
	tab := h.Tab(phone())
	tab.Open("/")
	look(tab, "sign-in")
	for _, name := range []string{"trust", "docs"} {
		tab.Open("/" + name)
		tab.Await(`document.querySelectorAll('main *').length > 10`)
		look(tab, name)
	}
	tab.SignIn(consoletest.Admin)
	for address, name := range pages() {
		tab.Visit(address)
		look(tab, name)
	}

	tab.Block("/admin/v1/*")
	for address, name := range pages() {
		if name != "doors" && name != "station" && name != "add" { // which show what streams say
			tab.Visit("#/doors")
			tab.Visit(address)
			tab.Await(`document.querySelector('main [role=alert]:not([hidden])')`)
			look(tab, name+"-error")
		}
	}
	tab.Block()

	tab.Visit("#/doors")
	tab.Await(`document.querySelector('.link.live')`)
	if err := h.Process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Process.Process.Signal(syscall.SIGCONT) }()
	tab.Eval("setClockAhead(30_000)", nil)
	tab.Await(`document.querySelector('.link.lost') && document.querySelector('.gone')`)
	for address, name := range pages() {
		tab.Eval("location.hash = '"+address+"'", nil)
		tab.Await(`document.querySelector('h1') && document.querySelector('.link.lost')`)
		look(tab, name+"-stale")
	}
	if text := tab.Text(); !strings.Contains(text, "last known") {
		t.Errorf("the page does not say that it is not current:\n%s", text)
	}
}
