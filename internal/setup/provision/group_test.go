package provision_test

import (
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/setup/sitefile"
)

const grouped = `
[[account]]
email = "anna@example.test"
password = "correct horse"
[[account]]
email = "ben@example.test"
password = "correct horse"
[[station]]
id = 1
[[station]]
id = 2
[[group]]
name = "people"
accounts = ["anna@example.test", "ben@example.test", "anna@example.test"]
[[group]]
name = "doors"
stations = [1, 2]
[[holiday]]
name = "Christmas"
dates = ["12-26", "12-25"]
[[holiday]]
name = "Works"
dates = ["2026-08-03..2026-08-21"]
[[grant]]
account = "people"
stations = ["doors", 1]
hours = "Mon-Fri 08:00-18:00"
holidays = "none"
[[grant]]
account = "anna@example.test"
stations = ["doors"]
`

func TestService_Apply_groups(t *testing.T) {
	h := open(t)
	dry := h.apply(grouped, sitefile.Options{DryRun: true})
	if h.store.writes() != 0 || len(h.accounts.Groups()) != 0 || len(h.accounts.Holidays()) != 0 {
		t.Fatal("the dry run changes something")
	}
	result := h.apply(grouped, sitefile.Options{})
	want := []string{
		"group-added: people, a group of accounts",
		"group-changed: anna@example.test, added to the group people",
		"group-changed: ben@example.test, added to the group people",
		"group-added: doors, a group of stations",
		"group-changed: station 1, added to the group doors",
		"group-changed: station 2, added to the group doors",
		"holiday-changed: Christmas: 12-25, 12-26",
		"holiday-changed: Works: 2026-08-03..2026-08-21",
		"granted: group people, stations of doors: Mon-Fri 08:00-18:00, on holidays none",
		"granted: station 1, group people: Mon-Fri 08:00-18:00, on holidays none",
		"granted: anna@example.test, stations of doors: without limits",
	}
	if got := lines(result)[4:]; !slices.Equal(got, want) || !slices.Equal(lines(dry), lines(result)) {
		t.Errorf("changes:\n%s", strings.Join(got, "\n"))
	}
	if !h.accounts.Permits(h.id("anna@example.test"), 2) || h.accounts.Permits(h.id("ben@example.test"), 3) {
		t.Error("the grants do not hold")
	}
	for _, o := range []sitefile.Options{{}, {Prune: true}, {Prune: true, DryRun: true}} {
		if again := h.apply(grouped, o); len(again.Changes) != 0 {
			t.Errorf("%+v changes %q", o, lines(again))
		}
	}
}

// What a site no longer names stays without pruning, and goes with it. What goes with its
// account, station or group is not removed by itself.
func TestService_Apply_pruneGroups(t *testing.T) {
	h := open(t)
	h.apply(grouped, sitefile.Options{})
	const less = `
[[account]]
email = "anna@example.test"
[[station]]
id = 1
[[group]]
name = "people"
accounts = []
[[holiday]]
name = "Christmas"
dates = ["12-25"]
[[holiday]]
name = "New"
dates = ["01-01"]
[[grant]]
account = "people"
stations = [1]
hours = "Mon-Fri 08:00-18:00"
holidays = "none"
`
	if got := lines(h.apply(less, sitefile.Options{})); !slices.Equal(got, []string{"holiday-changed: New: 01-01"}) {
		t.Errorf("without pruning: %q", got)
	}
	want := []string{
		"account-removed: ben@example.test, with its sessions and grants",
		"station-removed: station 2",
		"group-removed: doors, with its grants",
		"group-changed: anna@example.test, removed from the group people",
		"holiday-removed: Works",
		"holiday-changed: Christmas: 12-25",
	}
	if got := lines(h.apply(less, sitefile.Options{Prune: true, Force: true})); !slices.Equal(got, want) {
		t.Errorf("with pruning:\n%s", strings.Join(got, "\n"))
	}
	if got := h.accounts.Grants(); len(got) != 1 || len(h.accounts.Groups()) != 1 || h.accounts.Permits(h.id("anna@example.test"), 1) {
		t.Errorf("left are %+v", got)
	}
	if again := h.apply(less, sitefile.Options{Prune: true}); len(again.Changes) != 0 {
		t.Errorf("the second run changes %q", lines(again))
	}
}

// A group that is named in a grant alone is spared, with its members.
func TestService_Apply_namedGroup(t *testing.T) {
	h := open(t)
	h.apply(grouped, sitefile.Options{})
	got := lines(h.apply("[[account]]\nemail = \"anna@example.test\"\n[[grant]]\naccount = \"people\"\nstations = [\"doors\"]\n", sitefile.Options{Prune: true, DryRun: true}))
	if slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "group-") }) {
		t.Errorf("%q", got)
	}
}

func TestService_Apply_groupProblems(t *testing.T) {
	h := open(t)
	h.apply(grouped, sitefile.Options{})
	_, err := h.try(`
[[group]]
name = "people"
stations = [3]
[[group]]
name = "new"
accounts = ["who@example.test"]
[[grant]]
account = "doors"
stations = ["new",
  "nowhere", 4]
`, sitefile.Options{})
	want := `test:3: group people is one of accounts on the gateway: remove it first
test:4: there is no station 3, neither in the site nor on the gateway
test:7: there is no account who@example.test, neither in the site nor on the gateway
test:9: there is no group of accounts doors, neither in the site nor on the gateway
test:10: there is no group of stations new, neither in the site nor on the gateway`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
