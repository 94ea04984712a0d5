package adminapi_test

import (
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// applied is what the provisioner of these tests says.
func applied() sitefile.Result {
	return sitefile.Result{
		Changes:  []sitefile.Change{{Kind: "account-added", What: "account a@b.test"}, {Kind: "station-added", What: "station 7, 1 lock"}},
		Accounts: []sitefile.IssuedAccount{{AccountID: "id-1", Email: "a@b.test", Password: "pass word"}, {AccountID: "id-2", Email: "c@d.test"}},
		Stations: []sitefile.IssuedStation{sitefile.Issue(7, "tok", "SEC")},
	}
}

const appliedJSON = `"changes":[{"kind":"account-added","what":"account a@b.test"},{"kind":"station-added","what":"station 7, 1 lock"}],` +
	`"accounts":[{"accountId":"id-1","email":"a@b.test","password":"pass word"},{"accountId":"id-2","email":"c@d.test"}],` +
	`"stations":[{"stationId":7,"stationToken":"tok","mqtt":{"clientId":"station-7","username":"station-7","password":"SEC"}}]}`

func TestHandler_apply(t *testing.T) {
	h := open(t)
	h.want(h.do("POST", "/admin/v1/apply", `{"site":{}}`), 200, `{"changes":[],"accounts":[],"stations":[]}`)
	h.provisioner.result = applied()
	h.want(h.do("POST", "/admin/v1/apply", `{"site":{"timezone":"UTC"},"dryRun":true,"prune":true}`), 200, `{`+appliedJSON)
	if h.provisioner.options != (sitefile.Options{DryRun: true, Prune: true}) || !strings.HasPrefix(h.provisioner.by.Name, "uid 0") {
		t.Errorf("asked with %+v by %+v", h.provisioner.options, h.provisioner.by)
	}
}

func TestHandler_applyFails(t *testing.T) {
	h := open(t)
	h.provisioner.err = fault.New(fault.Unavailable, "station 8: This cannot be stored now; try again")
	h.want(h.do("POST", "/admin/v1/apply", `{"site":{}}`), 503, `{"message":"station 8: This cannot be stored now; try again"}`)
}

func TestHandler_applyInvalid(t *testing.T) {
	h := open(t)
	for body, want := range map[string]string{
		`{"site":{"accounts":[{"email":"a@b.test"},{"email":"x"}],"stations":[{"id":7,"locks":-1}],"grants":[{"account":"","stations":[1]}]}}`: `account 2: \"x\" is not an e-mail address: write it like porter@example.test\n` +
			`station 1: locks must be from 1 to 64, not -1\ngrant 1: the grant names no account`,
		`{"site":{"grants":[{"account":"a@b.test","stations":[1],"hours":"?"}]}}`:           `\"?\" are not hours: write them like \"Mon-Fri 08:00-18:00\"`,
		`{"site":{"file":"site.toml","accounts":[{"email":"x","lines":{"":3,"email":4}}]}}`: `site.toml:4: \"x\" is not an e-mail address: write it like porter@example.test`,
		`{"site":{"stations":[{"id":7},{"id":7}]}}`:                                         `station 2: station 7 is in this file twice: it is also [[station]] number 1`,
		`{"site":{"stations":[{"id":7,"password":"x"}]}}`:                                   `Unknown field \"password\"`,
		`{"site":{"stations":[{"id":"7"}]}}`:                                                `\"site.stations.id\" cannot be a string`,
		`{"site":{"grants":[{"account":"a@b.test","from":"now"}]}}`:                         `\"now\" is not a time: write it like 2026-01-01T00:00:00Z`,
	} {
		h.want(h.do("POST", "/admin/v1/apply", body), 400, `{"message":"`+want+`"}`)
	}
}

func TestHandler_applyTooLarge(t *testing.T) {
	h := open(t)
	if got := h.do("POST", "/admin/v1/apply", `{"site":{"timezone":"`+strings.Repeat("x", 16<<20)+`"}}`); got.status != 413 {
		t.Errorf("got %d", got.status)
	}
}

// A site reaches the provisioner over the wire as it was parsed.
func TestClient_Apply_wholeSite(t *testing.T) {
	h := open(t)
	c := h.serve()
	data, err := os.ReadFile("../../../configs/site.example.toml")
	h.must(err)
	s, err := sitefile.Parse("example", data)
	h.must(err)
	h.provisioner.result = applied()
	got, err := c.Apply(t.Context(), s, sitefile.Options{Prune: true})
	h.must(err)
	if !reflect.DeepEqual(h.provisioner.site, s) {
		t.Error("the site was changed on its way")
	}
	if len(got.Changes) != 2 || got.Accounts[0].Password != "pass word" || got.Stations[0].MQTT.Password != "SEC" {
		t.Errorf("%d changes came back", len(got.Changes))
	}
}

// The largest site file goes through, and so does one with 10,000 stations.
func TestClient_Apply_large(t *testing.T) {
	h := open(t)
	c := h.serve()
	s := sitefile.Site{}
	for i := range 10_000 {
		s.Stations = append(s.Stations, sitefile.Station{
			ID: site.StationID(i + 1), Locks: 2, Secret: site.Secret(strings.Repeat("<", 128)), Token: site.Secret(strings.Repeat("x", 100) + site.StationID(i+1).String()),
		})
	}
	_, err := c.Apply(t.Context(), s, sitefile.Options{})
	h.must(err)
	if len(h.provisioner.site.Stations) != 10_000 {
		t.Errorf("%d stations arrived", len(h.provisioner.site.Stations))
	}
}

func TestClient_Apply_fails(t *testing.T) {
	h := open(t)
	c := h.serve()
	h.provisioner.err = fault.Throttle("Wait", 0)
	if _, err := c.Apply(t.Context(), sitefile.Site{}, sitefile.Options{}); !fault.Is(err, fault.Throttled) || fault.Sentence(err) != "Wait" {
		t.Errorf("got %v", err)
	}
}

// FuzzApply sends arbitrary bodies: none may be a fault of ours.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"site":{"timezone":"UTC","accounts":[{"email":"a@b.test","password":"correct horse","admin":true}]},"dryRun":true}`))
	f.Add([]byte(`{"site":{"stations":[{"id":7,"name":"x","locks":2,"secret":"abcdefghijkl","token":"abcdefgh"}],"grants":[{"account":"a@b.test","stations":[7],"from":"2026-01-01T00:00:00Z","hours":"Mon 08:00-09:00"}]}}`))
	f.Add([]byte(`{"site":null,"prune":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		h := open(t)
		r := httptest.NewRequestWithContext(adminapi.PeerContext(t.Context(), 0, 0, 1, 1), "POST", "/admin/v1/apply", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		if got := h.send(adminapi.Socket, r); got.status != 200 && got.status != 400 && got.status != 413 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
}
