package adminapi_test

import (
	"strings"
	"testing"

	"gatehouse/internal/setup/calendar"
	"gatehouse/internal/site"
)

func TestHandler_groups(t *testing.T) {
	h := open(t)
	h.addStation(1042)
	h.addStation(7)
	h.addAccount(porter, false)
	const path = "/admin/v1/groups"
	h.want(h.do("GET", path, ""), 200, `{"groups":[]}`)
	h.want(h.do("PATCH", path+"/%20cleaners%20", `{"add":{"accounts":[]}}`), 200, `{"name":"cleaners","accounts":[]}`)
	h.want(h.do("PATCH", path+"/ground%20floor", `{"add":{"stations":[1042,7]}}`), 200, `{"name":"ground floor","stations":[7,1042]}`)
	h.want(h.do("PATCH", path+"/cleaners", `{"add":{"accounts":["Porter@example.test"]}}`), 200, `{"name":"cleaners","accounts":["porter@example.test"]}`)
	h.want(h.do("PATCH", path+"/ground%20floor", `{"remove":{"stations":[7]}}`), 200, `{"name":"ground floor","stations":[1042]}`)
	h.want(h.do("GET", path, ""), 200, `{"groups":[{"name":"cleaners","accounts":["porter@example.test"]},{"name":"ground floor","stations":[1042]}]}`)
	h.want(h.do("PATCH", path+"/7", `{"add":{"accounts":[]}}`), 400,
		`{"message":"\"7\" is not the name of a group: begin it with a letter, without @, at most 100 characters"}`)
	h.want(h.do("PATCH", path+"/x", `{"add":{"accounts":["`+porter+`"],"stations":[7]}}`), 400, `{"message":"The group x is one of stations"}`)
	h.want(h.do("PATCH", path+"/x", `{"add":{"accounts":[],"kind":"y"}}`), 400, `{"message":"Unknown field \"kind\""}`)
	h.want(h.do("PATCH", path+"/x", `{"add":{"accounts":["who@example.test"]}}`), 404, `{"message":"There is no account who@example.test"}`)
	h.want(h.do("PATCH", path+"/x", `{"remove":{"accounts":["`+porter+`"]}}`), 404, `{"message":"There is no group x"}`)
	h.want(h.do("PATCH", path+"/cleaners", `{"add":{"stations":[7]}}`), 400, `{"message":"The group cleaners is one of accounts"}`)
	h.want(h.do("PATCH", path+"/cleaners", `{"add":{"stations":[8]}}`), 404, `{"message":"Station 8 is not enrolled"}`)
	h.want(h.do("PATCH", path+"/others", `{}`), 404, `{"message":"There is no group others"}`)
	h.want(h.do("PATCH", path+"/twice", `{"add":{"stations":[7,7]}}`), 200, `{"name":"twice","stations":[7]}`)
	h.want(h.do("DELETE", path+"/cleaners", ""), 204, "")
	h.want(h.do("DELETE", path+"/cleaners", ""), 404, `{"message":"There is no group cleaners"}`)
}

func TestHandler_groupGrants(t *testing.T) {
	h := open(t)
	h.addStation(1042)
	account := h.addAccount(porter, false)
	h.want(h.do("PATCH", "/admin/v1/groups/cleaners", `{"add":{"accounts":["`+porter+`"]}}`), 200, `{"name":"cleaners","accounts":["`+porter+`"]}`)
	h.want(h.do("PATCH", "/admin/v1/groups/ground%20floor", `{"add":{"stations":[1042]}}`), 200, `{"name":"ground floor","stations":[1042]}`)
	const path = "/admin/v1/grants/cleaners/ground%20floor"
	full := `{"accountGroup":"cleaners","stationGroup":"ground floor","from":null,"until":null,"hours":"","holidays":"none"`
	h.want(h.do("PUT", path, `{"holidays":"none"}`), 200, full+`,"changed":true}`)
	h.want(h.do("PUT", path, `{"holidays":"none"}`), 200, full+`,"changed":false}`)
	h.want(h.do("PUT", "/admin/v1/grants/"+porter+"/ground%20floor", `{}`), 200,
		`{"email":"`+porter+`","stationGroup":"ground floor","from":null,"until":null,"hours":"","changed":true}`)
	h.want(h.do("GET", "/admin/v1/grants", ""), 200,
		`{"grants":[{"email":"`+porter+`","stationGroup":"ground floor","from":null,"until":null,"hours":""},`+full+`}]}`)
	h.want(h.do("PUT", path, `{"holidays":"no"}`), 400, `{"message":"\"no\" are not hours: write them like \"Mon-Fri 08:00-18:00\""}`)
	h.want(h.do("PUT", "/admin/v1/grants/cleaners/cleaners", `{}`), 404, `{"message":"There is no group of stations cleaners"}`)
	h.want(h.do("PUT", "/admin/v1/grants/nobody/1042", `{}`), 404, `{"message":"There is no group of accounts nobody"}`)
	h.want(h.do("PUT", "/admin/v1/grants/7/1042", `{}`), 400, `{"message":"\"7\" is not the name of a group: begin it with a letter, without @, at most 100 characters"}`)
	h.want(h.do("DELETE", "/admin/v1/grants/"+porter+"/ground%20floor", ""), 204, "")
	if !h.access.Permits(account.ID, 1042) {
		t.Error("the grant of the group does not hold")
	}
	h.want(h.do("DELETE", path, ""), 204, "")
	h.want(h.do("DELETE", path, ""), 404, `{"message":"There is no such grant"}`)
	if h.access.Permits(account.ID, 1042) {
		t.Error("a withdrawn grant holds")
	}
}

func TestHandler_holidays(t *testing.T) {
	h := open(t)
	const path = "/admin/v1/holidays"
	h.want(h.do("GET", path, ""), 200, `{"holidays":[]}`)
	h.want(h.do("POST", path, `{"name":"Christmas","dates":["2026-12-24","12-25..12-26"]}`), 200,
		`{"holidays":[{"name":"Christmas","dates":["12-25..12-26","2026-12-24"]}]}`)
	h.want(h.do("POST", path, `{"name":"Christmas","dates":["2026-12-24"]}`), 200, `{"holidays":[]}`)
	h.want(h.do("POST", path, `{"ics":"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:A/B\r\nDTSTART:20270101\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"}`), 200,
		`{"holidays":[{"name":"A/B","dates":["2027-01-01"]}]}`)
	h.want(h.do("GET", path, ""), 200,
		`{"holidays":[{"name":"A/B","dates":["2027-01-01"]},{"name":"Christmas","dates":["12-25..12-26","2026-12-24"]}]}`)
	for body, want := range map[string]string{
		`{"name":"","dates":["12-25"]}`:        `\"\" is not the name of a holiday: write 1 to 100 characters`,
		`{"name":"x","dates":[]}`:              `The holiday needs \"dates\", such as [\"2026-12-24\", \"12-25\"]`,
		`{"name":"x","dates":["24.12."]}`:      `\"24.12.\" is not a date: write 2026-12-24, 2026-12-24..2027-01-03, or for every year 12-25`,
		`{"name":"x","dates":["12-25"],"a":1}`: `Unknown field \"a\"`,
		// One that a start could not read would take the other dates with it.
		`{"name":"x","dates":["12-25",null]}`: `\"\" is not a date: write 2026-12-24, 2026-12-24..2027-01-03, or for every year 12-25`,
	} {
		h.want(h.do("POST", path, body), 400, `{"message":"`+want+`"}`)
	}
	h.want(h.do("POST", path, `{"ics":"hello"}`), 400, `{"message":"this is not an iCalendar file of UTF-8 text"}`)
	h.want(h.do("POST", path, `{"ics":"`+strings.Repeat("x", calendar.MaxSize+1)+`"}`), 400,
		`{"message":"the calendar is too large: at most 1024 KiB; export only the holidays"}`)
	h.want(h.do("POST", path, `{"ics":"`+strings.Repeat("x", 2*calendar.MaxSize)+`"}`), 413, `{"message":"The body is too large: 2048 KiB at most"}`)
	h.want(h.do("DELETE", path+"/A%2FB", ""), 204, "")
	h.want(h.do("DELETE", path+"/A%2FB", ""), 404, `{"message":"There is no holiday A/B"}`)
	if got := h.access.Holidays(); len(got) != 1 || got[0].Name != "Christmas" {
		t.Errorf("left are %v", got)
	}
	if n := len(h.store.records); h.store.records[n-1].Kind != site.KindHolidayRemoved {
		t.Errorf("the newest record is %+v", h.store.records[n-1])
	}
}
