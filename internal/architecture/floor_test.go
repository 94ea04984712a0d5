package architecture_test

import (
	"slices"
	"strings"
	"testing"
)

// wings is the order of the wings: a package imports only its own wing and those on
// lower floors. What lies outside of internal/ has a floor too.
func wings() map[string]int {
	return map[string]int{
		// Words.
		"internal/architecture": 0,
		"internal/fault":        0,
		"internal/health":       1,
		"internal/limit":        1,
		"internal/metric":       1,
		"internal/site":         0,
		"configs":               0,
		"systemd":               0,

		"internal/access": 2,
		"internal/board":  2,
		"internal/door":   3,
		"internal/record": 4,
		"internal/setup":  4,
		"internal/cloud":  5,
		"internal/web":    5,

		// Assembly.
		"internal/config":  6,
		"internal/gateway": 7,
		"internal/install": 7,
		"cmd":              8,

		// Tests and tools.
		"internal/test": 9,
		"scripts":       10,
	}
}

// arrows are the imports between packages of one wing. There are no others, so that an
// adapter never imports a sibling.
func arrows() map[string][]string {
	return map[string][]string{
		"internal/access":              {"internal/access/amend", "internal/access/token"},
		"internal/access/token":        {"internal/access/amend"},
		"internal/access/setup":        {"internal/access/amend"},
		"internal/board/certificate":   {"internal/board/durable"},
		"internal/board/machine":       {"internal/board/durable"},
		"internal/board/slot":          {"internal/board/boottime", "internal/board/durable"},
		"internal/board/updates":       {"internal/board/slot"},
		"internal/cloud/homeassistant": {"internal/cloud/mqttclient"},
		"internal/cloud/link":          {"internal/cloud/api", "internal/cloud/mqttclient"},
		"internal/door/broker":         {"internal/door/stationlink"},
		"internal/door/stationlink":    {"internal/door/station", "internal/door/unlock"},
		"internal/install/update":      {"internal/install/updatefile"},
		"internal/record/backup":       {"internal/record/journal", "internal/record/slate"},
		"internal/record/sqlite":       {"internal/record/journal"},
		"internal/setup/provision":     {"internal/setup/sitefile", "internal/setup/tomlfile"},
		"internal/setup/sitefile":      {"internal/setup/tomlfile"},
		"internal/web/adminapi":        {"internal/web/kit"},
		"internal/web/adminapi/client": {"internal/web/adminapi", "internal/web/kit"},
		"internal/web/console":         {"internal/web/kit"},
		"internal/web/httpapi":         {"internal/web/kit"},
		"internal/web/trust":           {"internal/web/kit"},
	}
}

// adapters are the packages that only the assembly, tests and tools may import, and
// what else may. All others may be imported by every higher floor.
func adapters() map[string][]string {
	return map[string][]string{
		"internal/board/admission":     {"internal/door/broker", "internal/web/kit"},
		"internal/board/certificate":   nil,
		"internal/board/discovery":     nil,
		"internal/board/machine":       nil,
		"internal/board/slot":          nil,
		"internal/door/broker":         nil,
		"internal/door/stationlink":    {"internal/door/broker"},
		"internal/door/stationsim":     nil,
		"internal/record/backup":       nil,
		"internal/record/slate":        nil,
		"internal/record/sqlite":       nil,
		"internal/setup/provision":     nil,
		"internal/cloud/homeassistant": nil,
		"internal/cloud/link":          nil,
		"internal/cloud/mqttclient":    {"internal/config"},
		"internal/web/adminapi":        nil,
		"internal/web/console":         nil,
		"internal/web/httpapi":         nil,
		"internal/web/adminapi/client": nil,
		"internal/web/kit":             nil,
		"internal/web/trust":           nil,
		"internal/install/doctor":      nil,
		"internal/install/firstboot":   nil,
		"internal/install/service":     nil,
		"internal/install/update":      nil,
		"internal/install/updatefile":  nil,
	}
}

// wingOf returns the wing of the package of that name: "internal/door" of
// "internal/door/broker", "cmd" of "cmd/gatehouse".
func wingOf(name string) string {
	parts := strings.SplitN(name, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// forbidden says why a package may not import another, and "" where it may.
func forbidden(from, to string) string {
	order := wings()
	source, known := order[wingOf(from)]
	target, alsoKnown := order[wingOf(to)]
	users, restricted := adapters()[to]
	switch {
	case !known:
		return "the table of wings has no " + wingOf(from)
	case !alsoKnown:
		return "the table of wings has no " + wingOf(to)
	case wingOf(from) == wingOf(to):
		if source < order["internal/test"] && !slices.Contains(arrows()[from], to) {
			return "the table of arrows within a wing has no such arrow"
		}
	case target >= source:
		return "its wing is not on a lower floor"
	case restricted && source < order["internal/gateway"] && !slices.Contains(users, from):
		return "it is an adapter, for the assembly"
	}
	return ""
}

func TestFloors(t *testing.T) {
	for _, p := range packages(t) {
		if _, known := wings()[wingOf(p.name())]; !known {
			t.Errorf("%s is in no wing of the table", p.name())
		}
		for _, path := range p.Imports {
			name, ours := strings.CutPrefix(path, module+"/")
			if !ours {
				continue
			}
			if why := forbidden(p.name(), name); why != "" {
				t.Errorf("%s imports %s: %s", p.name(), name, why)
			}
		}
	}
}

// What the tables allow is used: an arrow that has gone leaves the table too.
func TestFloors_noneTooMany(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range packages(t) {
		for _, path := range p.Imports {
			imports[p.name()] = append(imports[p.name()], strings.TrimPrefix(path, module+"/"))
		}
	}
	for from, all := range arrows() {
		for _, to := range all {
			if !slices.Contains(imports[from], to) {
				t.Errorf("the table allows %s to import %s, which it does not", from, to)
			}
		}
	}
	for to, users := range adapters() {
		if _, found := imports[to]; !found {
			t.Errorf("the table names %s, which is no package", to)
		}
		for _, from := range users {
			if !slices.Contains(imports[from], to) {
				t.Errorf("the table allows %s to import %s, which it does not", from, to)
			}
		}
	}
}

func TestForbidden(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"internal/access", "internal/site", false},
		{"internal/access", "internal/door/station", true},
		{"internal/board/machine", "internal/fault", false},
		{"internal/site", "internal/health", true},
		{"internal/record/sqlite", "internal/access", false},
		{"internal/record/sqlite", "internal/door/broker", true},
		{"internal/door/broker", "internal/door/station", true},
		{"internal/access", "internal/record/sqlite", true},
		{"internal/web/adminapi/client", "internal/web/adminapi", false},
		{"internal/web/adminapi", "internal/web/adminapi/client", true},
		{"internal/gateway", "internal/config", false},
		{"internal/config", "internal/gateway", true},
		{"cmd/gatehouse", "internal/gateway", false},
		{"cmd/gatehouse", "internal/test/gatewaytest", true},
		{"scripts/demo", "internal/test/gatewaytest", false},
	} {
		if got := forbidden(test.from, test.to); (got != "") != test.want {
			t.Errorf("%s importing %s: %q, want forbidden to be %t", test.from, test.to, got, test.want)
		}
	}
}
