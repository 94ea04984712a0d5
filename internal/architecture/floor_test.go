package architecture_test

import (
	"slices"
	"strings"
	"testing"
)

// place is where a package stands. It may import every lower floor, what everyone
// may, and what stands in also; never a sibling. Where only is set, it may import
// nothing else.
type place struct {
	floor int
	also  []string
	only  []string
}

// places is the table of floors. Tests may import what they like.
func places() map[string]place {
	return map[string]place{
		// Words.
		"configs":               {floor: 0},
		"internal/deadline":     {floor: 0},
		"internal/architecture": {floor: 0},
		"internal/fault":        {floor: 0},
		"internal/health":       {floor: 0, also: []string{"internal/site"}},
		"internal/metric":       {floor: 0, also: []string{"internal/site"}},
		"internal/site":         {floor: 0},
		"internal/systemlog":    {floor: 0},
		"internal/throttle":     {floor: 0},
		"internal/turn":         {floor: 0},
		"systemd":               {floor: 0},

		// Rules.
		"internal/access":       {floor: 1},
		"internal/admission":    {floor: 1},
		"internal/cloudcommand": {floor: 1},
		"internal/cloudwire":    {floor: 1},
		"internal/journal":      {floor: 1},
		"internal/setup":        {floor: 1},
		"internal/sitefile":     {floor: 1},
		"internal/station":      {floor: 1},
		"internal/unlock":       {floor: 1},

		// Adapters.
		"internal/adminapi":        {floor: 2},
		"internal/backup":          {floor: 2},
		"internal/adminapi/client": {floor: 2, also: []string{"internal/adminapi"}},
		"internal/board":           {floor: 2},
		"internal/broker":          {floor: 2},
		"internal/certificate":     {floor: 2},
		"internal/cloudmqtt":       {floor: 2},
		"internal/cloudlink":       {floor: 2, also: []string{"internal/cloudmqtt"}},
		"internal/cloudtail":       {floor: 2, also: []string{"internal/cloudmqtt"}},
		"internal/host":            {floor: 2},
		"internal/httpapi":         {floor: 2},
		"internal/installation":    {floor: 2},
		"internal/provision":       {floor: 2},
		"internal/sqlite":          {floor: 2},
		"internal/stationlink":     {floor: 2},
		"internal/stationsim":      {floor: 2},

		// Assembly.
		"internal/config": {floor: 3},
		// It sets the configuration and talks to the gateway as an administrator does.
		"internal/firstboot": {floor: 3, also: []string{"internal/config"}},
		"internal/doctor":    {floor: 3, also: []string{"internal/config"}},
		"internal/gateway":   {floor: 3, also: []string{"internal/config"}},

		// Programs, and what only tests and tools use.
		"cmd/gatehouse": {floor: 4, only: []string{
			"internal/adminapi", "internal/adminapi/client", "internal/backup", "internal/board", "internal/cloudcommand", "internal/cloudmqtt", "internal/cloudtail",
			"internal/cloudwire", "internal/config", "internal/doctor", "internal/firstboot",
			"internal/gateway", "internal/health", "internal/host",
			"internal/installation", "internal/journal", "internal/site", "internal/sitefile", "internal/sqlite", "internal/stationsim", "internal/systemlog",
		}},
		"internal/attacktest":  {floor: 4},
		"internal/boardtest":   {floor: 4},
		"internal/brokertest":  {floor: 4},
		"internal/cloudtest":   {floor: 4},
		"internal/gatewaytest": {floor: 4},
		"scripts/bench":        {floor: 5},
		"scripts/demo":         {floor: 5},
		"scripts/documents":    {floor: 5},
		"scripts/fleet":        {floor: 5},
		"scripts/imagetest":    {floor: 5},
	}
}

// forEveryone may be imported from every floor.
func forEveryone() []string { return []string{"internal/fault", "internal/metric"} }

// allows reports whether the package at p may import the one named, which stands
// on floor.
func (p place) allows(name string, floor int) bool {
	switch {
	case slices.Contains(forEveryone(), name), slices.Contains(p.also, name):
		return true
	case p.only != nil:
		return slices.Contains(p.only, name)
	default:
		return floor < p.floor
	}
}

func TestFloors(t *testing.T) {
	table := places()
	for _, p := range packages(t) {
		from, known := table[p.name()]
		if !known {
			t.Errorf("%s stands on no floor: add it to the table", p.name())
			continue
		}
		for _, path := range p.Imports {
			name, ours := strings.CutPrefix(path, module+"/")
			if ours && !from.allows(name, table[name].floor) {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.name(), from.floor, name, table[name].floor)
			}
		}
	}
}

func TestPlace_allows(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"internal/access", "internal/site", true},
		{"internal/access", "internal/station", false},
		{"internal/site", "internal/fault", true},
		{"internal/site", "internal/health", false},
		{"internal/sqlite", "internal/access", true},
		{"internal/sqlite", "internal/broker", false},
		{"internal/access", "internal/sqlite", false},
		{"internal/adminapi/client", "internal/adminapi", true},
		{"internal/adminapi", "internal/adminapi/client", false},
		{"internal/gateway", "internal/config", true},
		{"internal/config", "internal/gateway", false},
		{"cmd/gatehouse", "internal/gateway", true},
		{"cmd/gatehouse", "internal/access", false},
		{"cmd/gatehouse", "internal/gatewaytest", false},
		{"scripts/demo", "internal/gatewaytest", true},
	} {
		if got := places()[test.from].allows(test.to, places()[test.to].floor); got != test.want {
			t.Errorf("%s importing %s is %t, want %t", test.from, test.to, got, test.want)
		}
	}
}
