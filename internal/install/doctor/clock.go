package doctor

import (
	"context"
	"fmt"
	"time"
)

const (
	// timesyncdMark appears when systemd-timesyncd has set the clock, and is all that
	// the gateway sees of it from within its sandbox.
	timesyncdMark = "/run/systemd/timesync/synchronized"

	// behindLimit is how far the system's clock may be behind the last time that was
	// sure; a clock that is slewed is a little.
	behindLimit = 2 * time.Minute

	timesyncd = "systemd-timesyncd.service"
)

// timeServices are the programs that keep a clock right, under the names of their
// units.
func timeServices() []string {
	return []string{timesyncd, "chrony.service", "chronyd.service", "ntpsec.service", "ntp.service", "ntpd.service", "openntpd.service"}
}

// checkClock sees whether the machine's time can be right, and whether the gateway
// hears of it.
func checkClock(ctx context.Context, p *patient, s *sheet) {
	now := p.Machine.Now()
	services := activeServices(ctx, p)
	evidence := []string{"the system's time is " + moment(now), listed("time services", services), batteryClock(p)}
	checkSynchronised(p, s, services, evidence)
	if !p.Built.IsZero() && now.Before(p.Built.Add(-24*time.Hour)) {
		s.warn("The system's clock stands before the day on which this program was made",
			"set the clock: timedatectl set-ntp true", append(evidence, "this program was made at "+moment(p.Built))...)
	}
	state, _ := p.database()
	if behind := state.Floor.Sub(now); !state.Floor.IsZero() && behind > behindLimit {
		s.warn(fmt.Sprintf("The system's clock is %s behind the last time that was sure", span(behind)),
			"check the date and the time servers of this machine: timedatectl; if they are right and were wrong before: gatehouse clock reset", append(evidence, "the last sure time is "+moment(state.Floor))...)
	}
	if p.runs() {
		evidence = append(evidence, "the gateway's time is "+moment(p.status.Clock.Now.Time))
	}
	s.fine("The system says that it is right", evidence...)
}

// batteryClock says whether the machine keeps its time without power.
func batteryClock(p *patient) string {
	if p.Machine.Exists("/dev/rtc0") || p.Machine.Exists("/sys/class/rtc/rtc0") {
		return "it has a battery-backed clock"
	}
	return "it has no battery-backed clock: after a power cut the time is wrong until a time server answers"
}

// activeServices names the time services that run; none where nobody can say.
func activeServices(ctx context.Context, p *patient) []string {
	if !p.systemd {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	units, err := p.Machine.Units(ctx, []string{"Id", "ActiveState"}, timeServices()...)
	if err != nil {
		return nil
	}
	var active []string
	seen := make(map[string]bool)
	for _, u := range units {
		if id := u["Id"]; u["ActiveState"] == "active" && !seen[id] { // one unit may have two names
			active, seen[id] = append(active, id), true
		}
	}
	return active
}

// checkSynchronised compares what the kernel says with what the gateway can see.
func checkSynchronised(p *patient, s *sheet, services, evidence []string) {
	mark := p.Machine.Exists(timesyncdMark)
	kernel, err := p.Machine.Disciplined()
	if err != nil {
		kernel = mark
		evidence = append(evidence, "the kernel's clock cannot be read: "+err.Error())
	}
	hidden := p.installed() && !p.alien && p.unit["ProtectClock"] == "yes"
	switch {
	case kernel && hidden && !mark:
		s.warn("The system's clock is right, and the gateway cannot see it: its sandbox shows only what systemd-timesyncd does",
			"systemctl edit gatehouse, and write: [Service], ProtectClock=no, SystemCallFilter=adjtimex, each on a line; then systemctl restart gatehouse", evidence...)
	case kernel:
	case len(services) > 0:
		s.notice("No time server has answered yet", serviceCommand(services[0]), evidence...)
	case p.systemd:
		s.warn("Nothing keeps the system's clock right", "apt-get install systemd-timesyncd; timedatectl set-ntp true", evidence...)
	default:
		s.warn("Nobody says that the system's clock is right", "have a time service keep it, such as chrony or ntpd", evidence...)
	}
}

// serviceCommand shows how a time service fares.
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
