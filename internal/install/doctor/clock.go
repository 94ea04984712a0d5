package doctor

import (
	"context"
	"strings"

	"gatehouse/internal/board/machine"
)

const (
	// timesyncdMark appears when systemd-timesyncd has set the clock, and is all that the
	// gateway sees of it from within its sandbox.
	timesyncdMark = "/run/systemd/timesync/synchronized"

	timesyncd = "systemd-timesyncd.service"
)

// timeServices are the programs that keep a clock right, under the names of their units.
func timeServices() []string {
	return []string{timesyncd, "chrony.service", "chronyd.service", "ntpsec.service", "ntp.service", "ntpd.service", "openntpd.service"}
}

// checkClock checks that the machine's clock is kept right, and that the gateway can see
// that it is.
func checkClock(ctx context.Context, g *subject, s *sheet) {
	g.relay(s, "clock-")
	evidence := []string{"the system's time is " + moment(g.Machine.Now())}
	if g.runs() {
		evidence = append(evidence, "the gateway's time is "+moment(g.status.Clock.Now.Time))
	}
	mark := g.Machine.Exists(timesyncdMark)
	synchronised, err := g.Machine.Disciplined()
	if err != nil {
		synchronised = mark
		evidence = append(evidence, "the kernel's clock cannot be read: "+err.Error())
	}
	hidden := g.installed() && !g.alien && g.unit["ProtectClock"] == "yes"
	switch {
	case synchronised && hidden && !mark:
		s.warn("The system's clock is right, but the gateway cannot see it: its sandbox shows only what systemd-timesyncd does",
			"systemctl edit gatehouse, and write: [Service], ProtectClock=no, SystemCallFilter=adjtimex, each on a line; then systemctl restart gatehouse", evidence...)
	case !synchronised:
		findTimeService(ctx, g, s, evidence)
	}
	s.fine("The system reports that it is synchronised", evidence...)
}

// findTimeService reports why no time server has set the clock.
func findTimeService(ctx context.Context, g *subject, s *sheet, evidence []string) {
	if !g.systemd {
		s.warn("Nothing reports that the system's clock is right", "have a time service keep it, such as chrony or ntpd", evidence...)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	units, err := g.Machine.Units(ctx, []string{"Id", "ActiveState"}, timeServices()...)
	if err != nil {
		s.skip("the clock is not synchronised, and systemd could not be asked which time service runs: "+err.Error(), "timedatectl")
		return
	}
	active := activeUnits(units)
	switch {
	case len(active) > 0:
		s.notice("No time server has answered yet", serviceCommand(active[0]), append(evidence, "time services: "+strings.Join(active, ", "))...)
	case g.isImage():
		s.warn("Nothing keeps the system's clock right", "systemctl start systemd-timesyncd", evidence...)
	default:
		s.warn("Nothing keeps the system's clock right", "apt-get install systemd-timesyncd; timedatectl set-ntp true", evidence...)
	}
}

// activeUnits returns the names of the units that run; one unit may have two names.
func activeUnits(units []machine.Unit) []string {
	var active []string
	for _, u := range units {
		if id := u["Id"]; u["ActiveState"] == "active" && (len(active) == 0 || active[len(active)-1] != id) {
			active = append(active, id)
		}
	}
	return active
}

// serviceCommand returns how to see what a time service does.
func serviceCommand(service string) string {
	switch service {
	case timesyncd:
		return "timedatectl timesync-status; name a time server that this machine reaches in /etc/systemd/timesyncd.conf"
	case "chrony.service", "chronyd.service":
		return "chronyc sources -v; name a time server that this machine reaches in /etc/chrony/chrony.conf"
	default:
		return "ntpq -p; name a time server that this machine reaches"
	}
}
