package doctor

import (
	"context"
	"slices"
	"strings"
	"time"
)

const (
	// restartsMany is from how many restarts on something is wrong for sure, and calmAfter
	// how long a gateway has to run until they belong to the past.
	restartsMany = 10
	calmAfter    = time.Hour

	// adminFolder is where administrators put units; those in it have priority.
	adminFolder = "/etc/systemd/system/"

	// packagedUnit and packagedProgram are those of the Debian package; programs in the
	// folders of localPrograms come before them.
	packagedUnit    = "/usr/lib/systemd/system/" + serviceName
	packagedProgram = "/usr/bin/gatehouse"
)

func localPrograms() []string {
	return []string{"/usr/local/sbin/gatehouse", "/usr/local/bin/gatehouse"}
}

// checkService checks how systemd runs the gateway.
func checkService(_ context.Context, g *subject, s *sheet) {
	switch {
	case g.unasked != nil:
		s.skip("systemd could not be asked: "+g.unasked.Error(), "systemctl status gatehouse")
		return
	case !g.systemd:
		s.notice("systemd does not run this machine: nothing restarts the gateway when it ends", "run it under a program that does")
		return
	case !g.installed():
		s.notice("The gateway is no service: nothing starts it with the machine, or restarts it when it ends", "sudo gatehouse service install")
		return
	}
	unit := g.unit["FragmentPath"]
	if g.alien {
		s.warn("The gateway that runs was not started by "+serviceName, g.command("restart"), unitState(g.unit))
	}
	if g.unit["NeedDaemonReload"] == "yes" {
		s.warn("The unit was changed, and systemd has not read it", "systemctl daemon-reload; systemctl restart gatehouse", unit)
	}
	checkHidden(g, s, unit)
	checkRestarts(g, s)
	s.fine("systemd runs it, from "+unit, unitState(g.unit))
}

// checkHidden reports units and programs in whose place those of the package should be.
func checkHidden(g *subject, s *sheet, unit string) {
	programs := slices.DeleteFunc(localPrograms(), func(path string) bool { return !g.Machine.Exists(path) })
	switch {
	case !g.Machine.Exists(packagedProgram):
	case strings.HasPrefix(unit, adminFolder) && g.Machine.Exists(packagedUnit):
		s.warn("A unit in "+adminFolder+" hides the one of the package",
			"gatehouse service uninstall; rm -f "+strings.Join(localPrograms(), " ")+"; systemctl enable --now gatehouse.socket gatehouse-site gatehouse", unit+" hides "+packagedUnit)
	case len(programs) > 0:
		s.warn("Another program hides the one of the package, "+packagedProgram, "rm "+strings.Join(programs, " ")+"; hash -r", programs...)
	}
}

// checkRestarts reports how often systemd had to restart the gateway.
func checkRestarts(g *subject, s *sheet) {
	restarts := g.unit.Number("NRestarts")
	evidence := []string{"restarted " + times(restarts) + " since it was started by hand or with the machine"}
	if result := g.unit["Result"]; result != "success" && result != "" {
		evidence = append(evidence, "its last end was "+result)
	}
	calm := g.runs() && g.status.Clock.Now.Sub(g.status.Started.Time) > calmAfter
	switch {
	case restarts >= restartsMany && !calm:
		s.warn("systemd restarts the gateway again and again", logCommand, evidence...)
	case restarts > 0:
		s.notice("systemd had to restart the gateway", logCommand+"; systemctl reset-failed gatehouse resets the count", evidence...)
	}
}
