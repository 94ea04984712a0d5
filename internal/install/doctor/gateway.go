package doctor

import (
	"context"
	"fmt"
	"strings"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
)

// logCommand shows the last lines of the service's log.
const logCommand = "journalctl -u gatehouse -n 50"

// checkGateway asks the gateway how it is; if it does not run, systemd why.
func checkGateway(_ context.Context, g *subject, s *sheet) {
	switch {
	case g.runs():
		reportStatus(g, s)
	case mayNot(g.silent):
		s.skip("this user may not ask the gateway on "+g.socket, asRoot)
	case fault.Is(g.silent, fault.Timeout):
		s.fatal("The gateway runs but does not answer", g.command("restart"), sentence(g.silent), "socket "+g.socket)
	case g.installed():
		summary, fix := stateOf(g.unit)
		s.fatal(summary, fix, unitState(g.unit), "nothing answers on "+g.socket)
	case g.unasked != nil:
		s.fatal("The gateway does not answer, and systemd could not be asked why", "systemctl status gatehouse", sentence(g.unasked), "nothing answers on "+g.socket)
	default:
		s.fatal("The gateway does not run", "gatehouse serve", "nothing answers on "+g.socket)
	}
}

// reportStatus relays what the gateway reports, but for the conditions that belong to
// other checks.
func reportStatus(g *subject, s *sheet) {
	st := g.status
	for _, c := range st.Conditions {
		area, _, _ := strings.Cut(string(c.Code), "-")
		if area != "clock" && area != "certificate" && area != "cloud" {
			g.relay(s, string(c.Code))
		}
	}
	evidence := []string{"version " + st.Version, "running since " + moment(st.Started.Time)}
	if !st.Ready && len(s.findings) == 0 {
		s.fatal("The gateway is not ready to open doors", logCommand, evidence...)
	}
	if st.Version != g.Version {
		s.notice(fmt.Sprintf("The gateway that runs is version %s, and this program is %s", st.Version, g.Version), g.command("restart"), evidence...)
	}
	if st.Accounts == 0 {
		s.notice("Nobody can log in yet: there is no account",
			"gatehouse account add YOU@EXAMPLE.COM --admin; or create the first one in an app, with the setup code that the log and the text console show", evidence...)
	}
	s.fine("It runs and is ready to open doors", evidence...)
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

// Outage returns what systemd knows of a gateway that does not answer, and what to do, in
// a sentence; "" where systemd does not run the gateway that cfg means.
func Outage(ctx context.Context, cfg Config) string {
	g := &subject{Config: cfg, systemd: cfg.Machine.HasSystemd()}
	if !g.systemd || g.elsewhere() {
		return ""
	}
	g.askSystemd(ctx)
	if !g.installed() {
		return ""
	}
	summary, fix := stateOf(g.unit)
	return fmt.Sprintf("%s (%s): %s; gatehouse doctor has more", summary, unitState(g.unit), fix)
}

// unitState returns the words of systemd.
func unitState(u machine.Unit) string {
	text := fmt.Sprintf("%s is %s (%s), %s", serviceName, u["ActiveState"], u["SubState"], u["UnitFileState"])
	if u["Result"] != "success" && u["Result"] != "" {
		text += fmt.Sprintf("; its last end was %s, status %s", u["Result"], u["ExecMainStatus"])
	}
	if n := u.Number("NRestarts"); n > 0 {
		text += fmt.Sprintf("; restarts: %d", n)
	}
	return text
}
