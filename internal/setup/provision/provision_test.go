package provision_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

const small = `
timezone = "Europe/Berlin"
[[account]]
email = "porter@example.test"
password = "correct horse"
[[account]]
email = "ada@example.test"
admin = true
[[station]]
id = 1042
name = " North entrance "
locks = 2
secret = "SECRETOF1042"
token = "token-of-1042"
[[station]]
id = 7
[[grant]]
account = "porter@example.test"
stations = [1042, 7]
from = 2026-01-01T00:00:00.0001Z
hours = "Mon-Fri 08:00-18:00"
`

// Applying a site ends with the next password when its administrator is no longer one.
func TestService_Apply_removedAdministrator(t *testing.T) {
	h := open(t)
	asked := 0
	h.changes.Ask(func(site.Actor) bool { asked++; return asked < 2 })
	if _, err := h.try(small+"[[account]]\nemail = \"third@example.test\"", sitefile.Options{}); !fault.Is(err, fault.Unauthenticated) || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if n := len(h.accounts.Accounts()); n != 0 {
		t.Errorf("%d accounts", n)
	}
}

func TestService_Apply(t *testing.T) {
	h := open(t)
	result := h.apply(small, sitefile.Options{})
	want := []string{
		"time-zone-changed: Europe/Berlin",
		"account-added: porter@example.test, not an administrator",
		"account-added: ada@example.test, an administrator",
		"station-added: station 1042 (North entrance), 2 locks",
		"station-added: station 7, 1 lock",
		"granted: porter@example.test, station 1042 (North entrance), from 2026-01-01T00:00:00.000Z, Mon-Fri 08:00-18:00",
		"granted: porter@example.test, station 7, from 2026-01-01T00:00:00.000Z, Mon-Fri 08:00-18:00",
	}
	if got := lines(result); !slices.Equal(got, want) {
		t.Errorf("changes:\n%s", strings.Join(got, "\n"))
	}
	h.checkIssued(result)
	if ok, err := h.accounts.PasswordMatches(t.Context(), "porter@example.test", "correct horse"); !ok || err != nil {
		t.Errorf("the porter's password: %v %v", ok, err)
	}
	if a, err := h.accounts.AccountByEmail("ada@example.test"); err != nil || !a.Admin {
		t.Errorf("ada is an administrator: %v, %v", a.Admin, err)
	}
	if !h.stations.HasLock(1042, 2) || h.zone.name != "Europe/Berlin" || len(h.accounts.Grants()) != 2 {
		t.Error("the gateway does not match the site")
	}
}

// checkIssued checks that what was generated works, and what was given is not
// shown again for an account but is for a station.
func (h *house) checkIssued(r sitefile.Result) {
	h.t.Helper()
	if len(r.Accounts) != 2 || r.Accounts[0].Password != "" || r.Accounts[1].Password == "" || r.Accounts[0].AccountID == "" {
		h.t.Fatalf("%d accounts were issued", len(r.Accounts))
	}
	if ok, err := h.accounts.PasswordMatches(h.t.Context(), "ada@example.test", site.Secret(r.Accounts[1].Password)); !ok || err != nil {
		h.t.Errorf("the generated password does not match: %v", err)
	}
	if len(r.Stations) != 2 || r.Stations[0].MQTT.Password != "SECRETOF1042" || r.Stations[0].StationToken != "token-of-1042" {
		h.t.Fatalf("%d stations were issued", len(r.Stations))
	}
	if s, ok := h.stations.ByToken(site.Secret(r.Stations[1].StationToken)); !ok || s.ID != 7 || !h.stations.SecretMatches(7, site.Secret(r.Stations[1].MQTT.Password)) {
		h.t.Error("the generated credentials of station 7 do not hold")
	}
}

func TestService_Apply_twice(t *testing.T) {
	h := open(t)
	h.apply(small, sitefile.Options{})
	before := h.store.writes()
	again := h.apply(small, sitefile.Options{Prune: true})
	if len(again.Changes) != 0 || len(again.Accounts) != 0 || len(again.Stations) != 0 {
		t.Errorf("the second run changes %q", lines(again))
	}
	if h.store.writes() != before {
		t.Error("the second run writes")
	}
}

func TestService_Apply_example(t *testing.T) {
	data, err := os.ReadFile("../../../configs/site.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	h := open(t)
	h.apply(string(data), sitefile.Options{})
	if _, ok := h.stations.ByToken("example-token-of-1042-north"); !ok || !h.accounts.Permits(h.id("porter@example.test"), 1042) {
		t.Error("the porter of the example cannot use station 1042")
	}
	if again := h.apply(string(data), sitefile.Options{Prune: true}); len(again.Changes) != 0 {
		t.Errorf("the second run changes %q", lines(again))
	}
}

func (h *house) id(email string) site.AccountID {
	h.t.Helper()
	a, err := h.accounts.AccountByEmail(email)
	if err != nil {
		h.t.Fatal(err)
	}
	return a.ID
}

func TestService_Apply_dryRun(t *testing.T) {
	h := open(t)
	dry := h.apply(small, sitefile.Options{DryRun: true})
	if h.store.writes() != 0 || h.zone.name != "UTC" || len(h.stations.Stations()) != 0 {
		t.Fatal("the dry run changes something")
	}
	if len(dry.Accounts) != 2 || dry.Accounts[1].Password == "" || len(dry.Stations) != 2 || dry.Stations[1].MQTT.Password == "" {
		t.Errorf("the dry run does not say what would be issued: %+v", dry)
	}
	if real := h.apply(small, sitefile.Options{}); !reflect.DeepEqual(dry.Changes, real.Changes) {
		t.Errorf("the dry run says\n%q\nthe real one\n%q", lines(dry), lines(real))
	}
}

func TestService_Apply_changes(t *testing.T) {
	h := open(t)
	h.apply(small, sitefile.Options{})
	result := h.apply(`
[[account]]
email = "porter@example.test"
password = "battery staple"
admin = true
[[account]]
email = "ada@example.test"
admin = false
[[station]]
id = 1042
name = "South entrance"
locks = 3
secret = "ANOTHERSECRET"
token = "another-token"
[[grant]]
account = "porter@example.test"
stations = [1042]
until = 2036-01-01T00:00:00Z
`, sitefile.Options{})
	want := []string{
		"account-changed: porter@example.test, an administrator",
		"account-changed: porter@example.test, password set",
		"account-changed: ada@example.test, not an administrator",
		"station-changed: station 1042 (South entrance), station token changed",
		`station-changed: station 1042 (South entrance), name "South entrance", 3 locks`,
		"station-rotated: station 1042 (South entrance), a given secret was set",
		"granted: porter@example.test, station 1042 (South entrance), until 2036-01-01T00:00:00.000Z; before: from 2026-01-01T00:00:00.000Z, Mon-Fri 08:00-18:00",
	}
	if got := lines(result); !slices.Equal(got, want) {
		t.Errorf("changes:\n%s", strings.Join(got, "\n"))
	}
	if len(result.Accounts)+len(result.Stations) != 0 {
		t.Error("credentials of what was not made are shown")
	}
	if !h.stations.SecretMatches(1042, "ANOTHERSECRET") || !h.stations.HasLock(1042, 3) {
		t.Error("the station does not match the site")
	}
	if ok, _ := h.accounts.PasswordMatches(t.Context(), "porter@example.test", "battery staple"); !ok {
		t.Error("the password was not changed")
	}
}

// What a site leaves out stays as it is.
func TestService_Apply_leavesTheRest(t *testing.T) {
	h := open(t)
	h.apply(small, sitefile.Options{})
	result := h.apply("[[account]]\nemail = 'ada@example.test'\n[[station]]\nid = 1042\n", sitefile.Options{})
	if len(result.Changes) != 0 {
		t.Errorf("changes %q", lines(result))
	}
	if result := h.apply("", sitefile.Options{}); len(result.Changes) != 0 {
		t.Errorf("an empty site changes %q", lines(result))
	}
}

func TestService_Apply_prune(t *testing.T) {
	h := open(t)
	h.apply(small, sitefile.Options{})
	h.apply(`
[[account]]
email = "guest@example.test"
[[station]]
id = 8
[[grant]]
account = "guest@example.test"
stations = [7, 8, 1042]
[[grant]]
account = "porter@example.test"
stations = [8]
`, sitefile.Options{})
	result := h.apply(`
[[station]]
id = 9
token = "token-of-1042x"
[[grant]]
account = "porter@example.test"
stations = [7]
`, sitefile.Options{Prune: true, Force: true})
	want := []string{
		"account-removed: ada@example.test, with its sessions and grants",
		"account-removed: guest@example.test, with its sessions and grants",
		"station-removed: station 8",
		"station-removed: station 1042 (North entrance)",
		"station-added: station 9, 1 lock",
		"granted: porter@example.test, station 7, without limits; before: from 2026-01-01T00:00:00.000Z, Mon-Fri 08:00-18:00",
	}
	if got := lines(result); !slices.Equal(got, want) {
		t.Errorf("changes:\n%s", strings.Join(got, "\n"))
	}
	if len(h.accounts.Grants()) != 1 || len(h.stations.Stations()) != 2 || h.zone.name != "Europe/Berlin" {
		t.Errorf("left: %d grants, %d stations, %s", len(h.accounts.Grants()), len(h.stations.Stations()), h.zone.name)
	}
	result = h.apply("[[account]]\nemail = 'porter@example.test'\n[[station]]\nid = 7\n", sitefile.Options{Prune: true})
	want = []string{"station-removed: station 9", "ungranted: porter@example.test, station 7"}
	if got := lines(result); !slices.Equal(got, want) {
		t.Errorf("changes:\n%s", strings.Join(got, "\n"))
	}
}

// A file that was cut off, or one without an administrator, does not prune by accident.
func TestService_Apply_pruneRefused(t *testing.T) {
	const ada = "[[account]]\nemail = 'ada@example.test'\n"
	for text, want := range map[string]string{
		"":                      "pruning would remove all of them",
		"timezone = 'UTC'\n":    "pruning would remove all of them",
		"[[station]]\nid = 7\n": "No administrator would be left",
		ada + "admin = false\n": "No administrator would be left",
		ada:                     "",
		"[[account]]\nemail = 'new@example.test'\nadmin = true\n": "",
	} {
		h := open(t)
		h.apply(small, sitefile.Options{})
		before := h.store.writes()
		_, err := h.try(text, sitefile.Options{Prune: true})
		if want == "" && err != nil || want != "" && (!fault.Is(err, fault.Conflict) || !strings.Contains(fault.Sentence(err), want) || h.store.writes() != before) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	h := open(t)
	h.apply(small, sitefile.Options{})
	h.apply("", sitefile.Options{Prune: true, Force: true})
	if len(h.accounts.Accounts())+len(h.stations.Stations())+len(h.accounts.Grants()) != 0 {
		t.Error("something is left")
	}
}

// The token of a removed station is free.
func TestService_Apply_freeToken(t *testing.T) {
	h := open(t)
	h.apply(stationsWithTokens("token-aaa", "token-bbb"), sitefile.Options{})
	h.apply("[[station]]\nid = 9\ntoken = 'token-aaa'\n[[station]]\nid = 2\n", sitefile.Options{Prune: true})
	if s, _ := h.stations.ByToken("token-aaa"); s.ID != 9 {
		t.Error("station 9 has not got it")
	}
}

// A grant that has ended says so.
func TestService_Apply_endedGrant(t *testing.T) {
	h := open(t)
	result := h.apply("[[account]]\nemail = 'a@b.test'\n[[station]]\nid = 1\n[[grant]]\naccount = 'a@b.test'\nstations = [1]\nuntil = 2020-01-01T00:00:00Z\n", sitefile.Options{})
	if got := result.Changes[2].What; got != "a@b.test, station 1, until 2020-01-01T00:00:00.000Z, which is over" {
		t.Error(got)
	}
}

func stationsWithTokens(tokens ...string) string {
	var b strings.Builder
	for i, token := range tokens {
		fmt.Fprintf(&b, "[[station]]\nid = %d\ntoken = %q\n", i+1, token)
	}
	return b.String()
}

// What does not fit is refused before anything changes.
func TestService_Apply_conflicts(t *testing.T) {
	const change = "[[account]]\nemail = 'new@example.test'\n"
	for name, c := range map[string]struct {
		text string
		kind fault.Kind
		want string
	}{
		"unknown account": {"[[grant]]\naccount = 'who@example.test'\nstations = [1]\n", fault.Conflict, "test:4: there is no account who@example.test, neither in the site nor on the gateway"},
		"unknown station": {"[[grant]]\naccount = 'new@example.test'\nstations = [1, 99]\n", fault.Conflict, "test:5: there is no station 99, neither in the site nor on the gateway"},
		"taken token":     {"[[station]]\nid = 9\ntoken = 'token-bbb'\n", fault.Conflict, "test:5: station 9 cannot have this token: station 2 has it on the gateway"},
		"taken token of one that is there": {
			"[[station]]\nid = 1\ntoken = 'token-bbb'\n", fault.Conflict, "test:5: station 1 cannot have this token: station 2 has it on the gateway",
		},
		"exchanged tokens": {stationsWithTokens("token-bbb", "token-aaa"), fault.Conflict, "give that one another token first"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.apply(stationsWithTokens("token-aaa", "token-bbb"), sitefile.Options{})
			before := h.store.writes()
			_, err := h.try(change+c.text, sitefile.Options{})
			if !fault.Is(err, c.kind) || !strings.Contains(fault.Sentence(err), c.want) {
				t.Errorf("got %v: %v", fault.KindOf(err), err)
			}
			if h.store.writes() != before {
				t.Error("something changed before it was refused")
			}
		})
	}
}

func TestService_Apply_invalidSite(t *testing.T) {
	h := open(t)
	for want, s := range map[string]sitefile.Site{
		"station 1: the station needs an id":                                  {Stations: []sitefile.Station{{ID: 0}}},
		"account 1: the password of x@example.test is one of the most common": {Accounts: []sitefile.Account{{Email: "x@example.test", Password: "Password123"}}},
	} {
		_, err := h.Apply(t.Context(), admin(), s, sitefile.Options{})
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(fault.Sentence(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// When the store does not take the site, nothing has changed, and the same site can be
// applied again.
func TestService_Apply_storeFails(t *testing.T) {
	h := open(t)
	h.store.amending = func(context.Context) error {
		return fault.New(fault.Unavailable, "This cannot be stored now; try again")
	}
	result, err := h.try(small, sitefile.Options{})
	if !fault.Is(err, fault.Unavailable) || len(result.Changes)+len(result.Accounts)+len(result.Stations) != 0 {
		t.Errorf("got %v and %q", err, lines(result))
	}
	if len(h.accounts.Accounts())+len(h.stations.Stations())+len(h.accounts.Grants()) != 0 || h.zone.name != "UTC" {
		t.Error("something has changed")
	}
	h.store.amending = nil
	h.apply(small, sitefile.Options{})
	if h.store.amends != 1 || len(h.accounts.Grants()) != 2 {
		t.Errorf("%d transactions, %d grants", h.store.amends, len(h.accounts.Grants()))
	}
}

// When the store does not take the site, what it removes is gone all the same, and nothing
// else has changed.
func TestService_Apply_revokesUnstored(t *testing.T) {
	h := open(t)
	h.apply(`
account = [{ email = "a@example.test", admin = true }, { email = "b@example.test" }, { email = "c@example.test" }]
station = [{ id = 7, locks = 2, homeassistant = "state+unlock" }, { id = 8, locks = 1 }]
grant = [
	{ account = "a@example.test", stations = [7] }, { account = "b@example.test", stations = [7] },
	{ account = "c@example.test", stations = [7, 8], until = 2030-01-01T00:00:00Z },
]
`, sitefile.Options{})
	h.store.amending = func(context.Context) error {
		return fault.New(fault.Unavailable, "This cannot be stored now; try again")
	}
	_, err := h.try(`
account = [{ email = "a@example.test", admin = false }, { email = "c@example.test" }, { email = "d@example.test" }]
station = [{ id = 7, locks = 1, token = "another-token" }, { id = 9, locks = 1 }]
grant = [
	{ account = "a@example.test", stations = [7], until = 2029-01-01T00:00:00Z },
	{ account = "c@example.test", stations = [7], until = 2031-01-01T00:00:00Z },
]
`, sitefile.Options{Prune: true, Force: true})
	if !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	var has []string
	for _, a := range h.accounts.Accounts() {
		has = append(has, fmt.Sprint(a.Email, " ", a.Admin))
	}
	for _, s := range h.stations.Stations() {
		has = append(has, fmt.Sprint(s.ID, " ", s.Locks, " ", s.HomeAssistant, " ", s.Token == "another-token"))
	}
	for _, g := range h.accounts.Grants() {
		has = append(has, fmt.Sprint(g.Station, " ", g.Until))
	}
	want := []string{
		"a@example.test false", "c@example.test false", "7 1 state+unlock false",
		"7 2029-01-01T00:00:00.000Z", "7 2030-01-01T00:00:00.000Z",
	}
	slices.Sort(has)
	slices.Sort(want)
	if !slices.Equal(has, want) {
		t.Errorf("the gateway has\n%s\nwant\n%s", strings.Join(has, "\n"), strings.Join(want, "\n"))
	}
	h.store.amending = nil
}

// A site is drafted against what is there when its turn comes, not when it was sent.
func TestService_Apply_changedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.apply(small, sitefile.Options{})
		release, renamed := make(chan struct{}), make(chan error, 1)
		h.store.amending = func(context.Context) error { <-release; return nil }
		go func() {
			_, err := h.stations.Update(t.Context(), admin(), 7, station.Patch{Name: new("Attic"), Locks: new(1)})
			renamed <- err
		}()
		synctest.Wait() // it is being stored
		failed := make(chan error, 1)
		go func() {
			_, err := h.try("[[station]]\nid = 7\nname = 'Cellar'\n[[account]]\nemail = 'new@example.test'\n", sitefile.Options{})
			failed <- err
		}()
		synctest.Wait() // it has planned and waits for its turn
		close(release)
		if err := <-renamed; err != nil {
			t.Error(err)
		}
		if err := <-failed; err != nil {
			t.Error(err)
		}
		if st, _ := h.stations.Station(7); st.Name != "Cellar" || len(h.accounts.Accounts()) != 3 {
			t.Errorf("the station's name is %q, and there are %d accounts", st.Name, len(h.accounts.Accounts()))
		}
	})
}

func bareStations(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[[station]]\nid = %d\n", i+1)
	}
	return b.String()
}

// A caller who leaves while the store writes learns nothing, and all of it is done.
func TestService_Apply_callerLeaves(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.store.amending = func(ctx context.Context) error { cancel(); return ctx.Err() }
	s := sitefile.Site{Stations: []sitefile.Station{{ID: 1}}, Accounts: []sitefile.Account{{Email: "a@b.test"}}, TimeZone: "Europe/Rome"}
	s.Grants = []sitefile.Grant{{Account: site.Ref{Email: "a@b.test"}, Stations: []site.Ref{{Station: 1}}}}
	if _, err := h.Apply(ctx, admin(), s, sitefile.Options{}); err != nil || len(h.accounts.Grants()) != 1 {
		t.Errorf("got %v and %d grants", err, len(h.accounts.Grants()))
	}
}

func BenchmarkService_Apply(b *testing.B) {
	text := bareStations(1000)
	for b.Loop() {
		h := open(b)
		h.apply(text, sitefile.Options{})
	}
}
