package doctor

import (
	"context"
	"fmt"
	"strings"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
)

// logCommand shows what the service told last.
const logCommand = "journalctl -u gatehouse -n 50"

// checkGateway asks the gateway how it is; if it does not run, systemd why.
func checkGateway(ctx context.Context, p *patient, s *sheet) {
	switch {
	case p.runs():
		reportStatus(p, s)
	case mayNot(p.silent):
		s.skip("this user may not ask the gateway on "+p.socket, asRoot)
	case fault.Is(p.silent, fault.Timeout):
		s.fatal("The gateway runs but does not answer", p.told("restart"), sentence(p.silent), "socket "+p.socket)
	case p.installed() && !p.alien:
		reportUnit(ctx, p, s)
	case p.process != 0:
		s.fatal("A gateway runs, but does not answer on its socket",
			"name its socket with --socket, or "+p.told("restart"), fmt.Sprintf("process %d has the data in %s", p.process, p.settings.Data), "socket "+p.socket)
	case p.asked != nil:
		s.fatal("The gateway does not run, and systemd does not say why", "systemctl status gatehouse", sentence(p.asked))
	default:
		s.fatal("The gateway does not run", "gatehouse serve", "nobody answers on "+p.socket)
	}
}

// reportStatus hands on what the gateway says of itself.
func reportStatus(p *patient, s *sheet) {
	st := p.status
	for _, c := range st.Conditions {
		s.find(c.Severity, c.Summary, c.Advice, []string{fmt.Sprintf("%s since %s", c.Code, moment(c.Since.Time))})
	}
	evidence := []string{"version " + st.Version, "running since " + moment(st.Started.Time)}
	if p.process != 0 {
		evidence = append(evidence, fmt.Sprintf("process %d", p.process))
	}
	if !st.Ready && !hasFatal(s) {
		s.fatal("The gateway is not ready to open doors", logCommand, evidence...)
	}
	if st.Version != p.Version {
		s.notice(fmt.Sprintf("The gateway that runs is version %s, and this program is %s", st.Version, p.Version), p.told("restart"), evidence...)
	}
	s.fine("It runs and is ready to open doors", evidence...)
}

func hasFatal(s *sheet) bool {
	for _, f := range s.findings {
		if f.Severity == health.Fatal {
			return true
		}
	}
	return false
}

// reportUnit says how the service stands that does not answer.
func reportUnit(ctx context.Context, p *patient, s *sheet) {
	st := stateOf(p.unit, p.socket)
	evidence := []string{unitState(p.unit)}
	if st.ill {
		evidence = append(evidence, lastLines(ctx, p)...)
	}
	s.fatal(st.words, st.mend, evidence...)
}

// state is what systemd knows of a service that does not answer.
type state struct {
	words, mend string
	ill         bool // whether its log says why
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
		return state{"systemd says that the gateway runs, but it does not answer on " + socket, logCommand + "; then systemctl restart gatehouse", true}
	case strings.HasPrefix(u["UnitFileState"], "enabled"):
		return state{"The gateway is stopped", "systemctl start gatehouse", false}
	case strings.HasPrefix(u["UnitFileState"], "masked"):
		return state{"The gateway is stopped, and may not be started", "systemctl unmask gatehouse; " + enable, false}
	default:
		return state{"The gateway is stopped, and does not start with the machine", enable, false}
	}
}

// Outage says in a sentence what systemd knows of a gateway that does not answer, and
// what to do; "" where systemd does not run the gateway that cfg means.
func Outage(ctx context.Context, cfg Config) string {
	p := &patient{Config: cfg.complete(), systemd: cfg.Machine.HasSystemd()}
	if !p.systemd || p.named() {
		return ""
	}
	p.askSystemd(ctx)
	if !p.installed() {
		return ""
	}
	st := stateOf(p.unit, "its socket")
	return fmt.Sprintf("%s (%s): %s; gatehouse doctor says more", st.words, unitState(p.unit), st.mend)
}

// unitState gives the words of systemd.
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

// lastLines gives the last complaints that the gateway wrote to its log, or systemd
// about it, since the last start was tried; none where they cannot be read.
func lastLines(ctx context.Context, p *patient) []string {
	const most = 3
	for _, of := range sinceStart(p) {
		text, err := p.Machine.Run(ctx, "journalctl", append(of, "--lines=20", "--output=cat", "--no-pager", "--quiet")...)
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

// sinceStart gives the arguments that choose, from the system's log, what the gateway
// wrote since its last start was tried, and what systemd did. The start has a name; times
// are worse, as the clock may have been set since.
func sinceStart(p *patient) [][]string {
	const own, about = "_SYSTEMD_UNIT=" + serviceName, "UNIT=" + serviceName
	if id := p.unit["InvocationID"]; id != "" {
		return [][]string{{own, "_SYSTEMD_INVOCATION_ID=" + id}, {about, "_PID=1", "INVOCATION_ID=" + id}}
	}
	for _, name := range []string{"ExecMainStartTimestampMonotonic", "InactiveExitTimestampMonotonic"} {
		if at, known := p.unit.Moment(p.Machine, name); known {
			since := fmt.Sprintf("--since=@%d", at.Unix())
			return [][]string{{own, since}, {about, "_PID=1", since}}
		}
	}
	return nil
}

// isComplaint leaves out of a report, which may travel, the lines that only tell what
// happens, and the one with the setup code of a new gateway.
func isComplaint(line string) bool {
	for _, part := range []string{"level=INFO", "level=DEBUG", `"level":"INFO"`, `"level":"DEBUG"`, "setup_code"} {
		if strings.Contains(line, part) {
			return false
		}
	}
	return line != ""
}
