package doctor

import (
	"context"
	"slices"

	"gatehouse/internal/health"
)

// checkClock checks that the machine's clock is kept right, and that the gateway can see
// that it is.
func checkClock(_ context.Context, g *subject, s *sheet) {
	right := g.Machine.Synchronised()
	evidence := []string{"the system's time is " + moment(g.Machine.Now())}
	if g.runs() {
		evidence = append(evidence, "the gateway's time is "+moment(g.status.Clock.Now.Time))
	}
	if right && slices.ContainsFunc(g.status.Conditions, func(c health.Condition) bool { return c.Code == health.ClockUntrusted }) {
		s.warn("The system's clock is right, but the gateway cannot see it: its sandbox shows only what systemd-timesyncd does",
			"systemctl edit gatehouse, and write: [Service], ProtectClock=no, SystemCallFilter=adjtimex, each on a line; then systemctl restart gatehouse", evidence...)
		return
	}
	g.relay(s, "clock-")
	if !right && len(s.findings) == 0 {
		s.notice("The system does not report that its clock is right", "timedatectl timesync-status; name a time server that this machine reaches in /etc/systemd/timesyncd.conf", evidence...)
	}
	s.fine("The system reports that it is synchronised", evidence...)
}
