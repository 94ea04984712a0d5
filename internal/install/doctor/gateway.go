package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/systemd"
)

// logCommand shows the last lines of the service's log.
const logCommand = "journalctl -u gatehouse -n 50"

// checkGateway asks the gateway how it is; if it does not run, systemd why.
func checkGateway(_ context.Context, g *subject, s *sheet) {
	switch {
	case g.runs():
		reportStatus(g, s)
	case mayNot(g.silent):
		s.find(Skipped, "this user may not ask the gateway on "+g.socket, asRoot)
	case fault.Is(g.silent, fault.Timeout):
		s.find(health.Fatal, "The gateway runs but does not answer", g.command("restart"), fault.Text(g.silent), "socket "+g.socket)
	case g.installed():
		summary, fix := stateOf(g.unit)
		s.find(health.Fatal, summary, fix, unitState(g.unit), "nothing answers on "+g.socket)
	case g.unasked != nil:
		s.find(health.Fatal, "The gateway does not answer, and systemd could not be asked why", "systemctl status gatehouse", fault.Text(g.unasked), "nothing answers on "+g.socket)
	default:
		s.find(health.Fatal, "The gateway does not run", "gatehouse serve", "nothing answers on "+g.socket)
	}
}

// reportStatus relays what the gateway reports.
func reportStatus(g *subject, s *sheet) {
	st := g.status
	for _, c := range st.Conditions {
		advice := c.Advice
		if c.Code == health.ClockUntrusted && g.Machine.Synchronised() {
			advice = "The system's clock is right, but the gateway sees only what systemd-timesyncd does. For another time service: systemctl edit gatehouse, " +
				"and write: [Service], ProtectClock=no, SystemCallFilter=adjtimex, each on a line; then systemctl restart gatehouse"
		}
		s.find(c.Severity, c.Summary, advice, fmt.Sprintf("%s since %s", c.Code, moment(c.Since.Time)))
	}
	evidence := []string{"version " + st.Version, "running since " + moment(st.Started.Time)}
	if !st.Ready && len(s.findings) == 0 {
		s.find(health.Fatal, "The gateway is not ready to open doors", logCommand, evidence...)
	}
	if st.Version != g.Version {
		s.find(health.Notice, fmt.Sprintf("The gateway that runs is version %s, and this program is %s", st.Version, g.Version), g.command("restart"), evidence...)
	}
	if st.Accounts == 0 {
		s.find(health.Notice, "Nobody can log in yet: there is no account",
			"gatehouse account add YOU@EXAMPLE.COM --admin; or create the first one in a browser or an app, with the setup code that the log and the text console show", evidence...)
	}
	if c := st.Certificate; c != nil && (&x509.Certificate{DNSNames: c.Names}).VerifyHostname(st.Name+".local") != nil {
		s.find(health.Notice, "The certificate does not have the name "+st.Name+".local: apps that call the gateway by it refuse it",
			"have apps use a name that it has; or set name in the configuration, or name another certificate in [tls]", "it is for: "+strings.Join(c.Names, ", "))
	}
	if st.Found != "" && st.Found != st.Name {
		s.find(health.Notice, "The network finds this machine as "+st.Found+".local, not as "+st.Name+".local",
			"set name in the configuration to "+st.Found+"; or give the machine a name that no other one on the network has, with hostnamectl hostname "+st.Name, evidence...)
	}
	s.fine("It runs and is ready to open doors", evidence...)
}

// checkConfiguration reads what the gateway would at its next start.
func checkConfiguration(_ context.Context, g *subject, s *sheet) {
	switch {
	case g.broken == nil && len(g.files) == 0:
		s.fine("There is none: every key has its default")
		return
	case g.broken == nil:
		s.fine("It is right", g.files[0].Name)
		return
	case mayNot(g.broken):
		s.unread("the configuration", g.broken)
		return
	}
	evidence := []string{fault.Text(g.broken)}
	if problems, ok := errors.AsType[*tomlfile.Error](g.broken); ok {
		evidence = strings.Split(problems.Error(), "\n")
	}
	fix := "correct what is named, check it with gatehouse serve --check, then " + g.command("restart")
	if g.runs() {
		s.find(health.Warning, "The configuration has errors; the gateway keeps the one that it has read", fix, evidence...)
		return
	}
	s.find(health.Fatal, "The gateway cannot start with this configuration", fix, evidence...)
}

// checkService checks how systemd runs the gateway, and what became of its first boot.
func checkService(_ context.Context, g *subject, s *sheet) {
	switch {
	case g.unasked != nil:
		s.find(Skipped, "systemd could not be asked: "+g.unasked.Error(), "systemctl status gatehouse")
	case !g.installed():
		s.find(health.Notice, "The gateway is no service: nothing starts it with the machine, or restarts it when it ends", "sudo gatehouse service install")
	case g.runs() && g.unit.Number("MainPID") == 0:
		s.find(health.Warning, "The gateway that runs was not started by "+systemd.Service, "stop it; systemctl restart gatehouse", unitState(g.unit))
	case g.unit.Number("NRestarts") > 0:
		s.find(health.Notice, "systemd had to restart the gateway", logCommand+"; systemctl reset-failed gatehouse resets the count", unitState(g.unit))
	}
	switch {
	case g.site["ActiveState"] == "activating":
		s.find(health.Notice, "A site file is being applied", "wait some minutes, then "+asRoot)
	case g.site.Loaded() && g.site["Result"] != "success":
		s.find(health.Warning, "The site file of the first boot was not applied, or not all of it",
			"read gatehouse-result.txt beside the site file and correct what it names; systemctl start gatehouse-site",
			fmt.Sprintf("%s: its last end was %s, status %s", systemd.Site, g.site["Result"], g.site["ExecMainStatus"]))
	}
	s.fine("systemd runs it, from "+g.unit["FragmentPath"], unitState(g.unit))
}

// Outage returns what systemd knows of a gateway that does not answer, and what to do, in
// a sentence; "" where systemd does not run the gateway that cfg means.
func Outage(ctx context.Context, cfg Config) string {
	g := &subject{Config: cfg}
	g.askSystemd(ctx)
	if !g.installed() {
		return ""
	}
	summary, fix := stateOf(g.unit)
	return fmt.Sprintf("%s (%s): %s; gatehouse doctor has more", summary, unitState(g.unit), fix)
}

// stateOf returns what systemd knows of a service that does not answer, and what to do.
func stateOf(u machine.Unit) (summary, fix string) {
	switch u["ActiveState"] {
	case "failed":
		return "The gateway has failed, and systemd has given it up", logCommand + "; then systemctl restart gatehouse"
	case "activating", "reloading":
		if u.Number("NRestarts") > 0 {
			return "The gateway does not start: systemd tries it again and again", logCommand
		}
		return "The gateway is starting", "wait a minute, then gatehouse doctor"
	case "active":
		return "The service is active, but the gateway does not answer", logCommand + "; then systemctl restart gatehouse"
	default:
		return "The gateway is stopped", "systemctl enable --now gatehouse.socket gatehouse"
	}
}

// unitState returns the words of systemd.
func unitState(u machine.Unit) string {
	text := fmt.Sprintf("%s is %s (%s), %s", systemd.Service, u["ActiveState"], u["SubState"], u["UnitFileState"])
	if u["Result"] != "success" && u["Result"] != "" {
		text += fmt.Sprintf("; its last end was %s, status %s", u["Result"], u["ExecMainStatus"])
	}
	if n := u.Number("NRestarts"); n > 0 {
		text += fmt.Sprintf("; restarts: %d", n)
	}
	return text
}

// elsewhere reports whether someone named a gateway that is not the service's.
func (g *subject) elsewhere() bool {
	if g.File != "" && g.File != systemFile || g.Socket != "" && g.Socket != systemSocket {
		return true
	}
	for _, entry := range g.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && (name == "GATEHOUSE_CONFIG" || name == "GATEHOUSE_DATA") {
			return true
		}
	}
	return false
}
