package machine

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// HasSystemd reports whether systemd runs this machine (sd_booted(3)).
func (m Machine) HasSystemd() bool { return m.Exists("/run/systemd/system") }

// Unit is what systemd knows of a unit, by the names of its properties
// (org.freedesktop.systemd1(5)).
type Unit map[string]string

// Loaded reports whether there is such a unit.
func (u Unit) Loaded() bool { return u["LoadState"] == "loaded" }

// Number gives a property that is a number; 0 where it is none.
func (u Unit) Number(name string) int {
	n, _ := strconv.Atoi(u[name])
	return n
}

// List gives the words of a property.
func (u Unit) List(name string) []string { return strings.Fields(u[name]) }

// Moment gives a property such as StateChangeTimestampMonotonic, in the system's
// present time; false where it is not set.
func (u Unit) Moment(m Machine, name string) (time.Time, bool) {
	since, err := strconv.ParseInt(u[name], 10, 64)
	up, unknown := m.Uptime()
	if err != nil || unknown != nil || since == 0 {
		return time.Time{}, false
	}
	return m.Now().Add(time.Duration(since)*time.Microsecond - up), true
}

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
	return units, nil
}
