package machine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// HasSystemd reports whether systemd runs this machine (sd_booted(3)).
func (m Machine) HasSystemd() bool { return m.Exists("/run/systemd/system") }

// Unit is what systemd knows of a unit, by the names of its properties
// (org.freedesktop.systemd1(5)).
type Unit map[string]string

// Loaded reports whether there is such a unit.
func (u Unit) Loaded() bool { return u["LoadState"] == "loaded" }

// Number returns a property that is a number; 0 where it is none.
func (u Unit) Number(name string) int {
	n, _ := strconv.Atoi(u[name])
	return n
}

// List returns the words of a property.
func (u Unit) List(name string) []string { return strings.Fields(u[name]) }

// Units asks systemd for properties of units; the answer has their order.
func (m Machine) Units(ctx context.Context, properties []string, names ...string) ([]Unit, error) {
	args := append([]string{"show", "--no-pager", "--property=" + strings.Join(properties, ",")}, names...)
	text, err := m.Run(ctx, "systemctl", args...)
	if err != nil {
		return nil, err
	}
	var units []Unit
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		u := make(Unit)
		for line := range strings.Lines(block) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				u[name] = value
			}
		}
		units = append(units, u)
	}
	if len(units) != len(names) {
		return nil, fmt.Errorf("systemctl described %d units of %d", len(units), len(names))
	}
	return units, nil
}
