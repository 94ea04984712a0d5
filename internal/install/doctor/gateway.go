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
func checkGateway(ctx context.Context, g *subject, s *sheet) {
	switch {
	case g.runs():
		reportStatus(g, s)
	case mayNot(g.silent):
		s.skip("this user may not ask the gateway on "+g.socket, asRoot)
	case fault.Is(g.silent, fault.Timeout):
		s.fatal("The gateway runs but does not answer", g.command("restart"), sentence(g.silent), "socket "+g.socket)
	case g.installed():
		st := stateOf(g.unit, g.socket)
		evidence := []string{unitState(g.unit)}
		if st.ill {
			evidence = append(evidence, lastLines(ctx, g)...)
		}
		s.fatal(st.words, st.fix, evidence...)
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
	if !st.Ready && !g.hasFatal() {
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

// state is what systemd knows of a service that does not answer.
type state struct {
	words, fix string
	ill        bool // whether its log has the reason
}

func stateOf(u machine.Unit, socket string) state {
	const enable = "systemctl enable --now gatehouse.socket gatehouse"
	switch active := u["ActiveState"]; {
	case active == "failed":
		return state{"The gateway has failed, and systemd has given it up", logCommand + "; then systemctl restart gatehouse", true}
	case active == "activating" && (u["SubState"] == "auto-restart" || u.Number("NRestarts") > 0):
		return state{"The gateway does not start: systemd tries it again and again", logCommand, true}
	case active == "activating", active == "reloading":
		return state{"The gateway is starting", "wait a minute, then gatehouse doctor", false}
	case active == "active":
		return state{"The service is active, but the gateway does not answer on " + socket, logCommand + "; then systemctl restart gatehouse", true}
	case strings.HasPrefix(u["UnitFileState"], "enabled"):
		return state{"The gateway is stopped", "systemctl start gatehouse", false}
	case strings.HasPrefix(u["UnitFileState"], "masked"):
		return state{"The gateway is stopped, and may not be started", "systemctl unmask gatehouse; " + enable, false}
	default:
		return state{"The gateway is stopped, and does not start with the machine", enable, false}
	}
}

// Outage returns what systemd knows of a gateway that does not answer, and what to do, in
// a sentence; "" where systemd does not run the gateway that cfg means.
func Outage(ctx context.Context, cfg Config) string {
	g := &subject{Config: cfg.complete(), systemd: cfg.Machine.HasSystemd()}
	if !g.systemd || g.elsewhere() {
		return ""
	}
	g.askSystemd(ctx)
	if !g.installed() {
		return ""
	}
	st := stateOf(g.unit, "its socket")
	return fmt.Sprintf("%s (%s): %s; gatehouse doctor has more", st.words, unitState(g.unit), st.fix)
}

// unitState returns the words of systemd.
func unitState(u machine.Unit) string {
	text := fmt.Sprintf("%s is %s (%s), %s", serviceName, u["ActiveState"], u["SubState"], u["UnitFileState"])
	if u["Result"] != "success" && u["Result"] != "" {
		text += fmt.Sprintf("; its last end was %s, status %s", u["Result"], u["ExecMainStatus"])
	}
	if n := u.Number("NRestarts"); n > 0 {
		text += "; restarted " + times(n)
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// lastLines returns the last complaints in the log, of the gateway itself or else of
// systemd about it, since the last start was tried; none where they cannot be read.
func lastLines(ctx context.Context, g *subject) []string {
	const most = 3
	id := g.unit["InvocationID"]
	if id == "" {
		return nil
	}
	for _, by := range [][]string{
		{"_SYSTEMD_UNIT=" + serviceName, "_SYSTEMD_INVOCATION_ID=" + id},
		{"UNIT=" + serviceName, "_PID=1", "INVOCATION_ID=" + id},
	} {
		text, err := g.Machine.Run(ctx, "journalctl", append(by, "--lines=20", "--output=cat", "--no-pager", "--quiet")...)
		if err != nil {
			return nil
		}
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); isComplaint(line) {
				lines = append(lines, "log: "+strings.ReplaceAll(line, `\n`, "; "))
			}
		}
		if len(lines) > 0 {
			return lines[max(len(lines)-most, 0):]
		}
	}
	return nil
}

// isComplaint leaves out of a report, which may be sent to others, ordinary events and the
// line with the setup code of a new gateway.
func isComplaint(line string) bool {
	for _, part := range []string{"level=INFO", "level=DEBUG", `"level":"INFO"`, `"level":"DEBUG"`, "setup_code"} {
		if strings.Contains(line, part) {
			return false
		}
	}
	return line != ""
}
