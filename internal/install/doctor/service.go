package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/systemd"
)

const (
	// exposureLimit is the exposure of the sandbox, as systemd-analyze reckons it, above
	// which someone has opened it.
	exposureLimit = 2.0

	// restartsMany is from how many restarts on something is wrong for sure, and
	// calmAfter how long a gateway has to run until they belong to the past.
	restartsMany = 10
	calmAfter    = time.Hour

	// adminFolder is where administrators put units; those there win.
	adminFolder = "/etc/systemd/system/"
)

// packageFolders are where packages put units.
func packageFolders() []string { return []string{"/usr/lib/systemd/system/", "/lib/systemd/system/"} }

// checkService looks at how systemd runs the gateway.
func checkService(ctx context.Context, p *patient, s *sheet) {
	switch {
	case p.asked != nil:
		s.skip("systemd does not answer: "+p.asked.Error(), "systemctl status gatehouse")
		return
	case !p.systemd:
		s.notice("systemd does not run this machine: nothing starts the gateway again when it ends", "run it under a program that does")
		return
	case !p.installed():
		s.notice("The gateway is no service: nothing starts it with the machine, or again when it ends", "sudo gatehouse service install")
		return
	}
	if p.alien {
		s.warn("The gateway that runs was not started by "+serviceName, p.told("restart"),
			fmt.Sprintf("process %d has the data in %s", p.process, p.settings.Data))
	}
	checkUnitFile(p, s)
	checkRestarts(ctx, p, s)
	facts := append([]string{unitState(p.unit), p.unit["FragmentPath"], listed("changed by", p.unit.List("DropInPaths"))}, checkSandbox(ctx, p, s)...)
	s.fine("systemd runs it, from "+p.unit["FragmentPath"], facts...)
}

// checkUnitFile sees that the unit is the one of this version.
func checkUnitFile(p *patient, s *sheet) {
	path := p.unit["FragmentPath"]
	programs := hidingPrograms(p)
	if p.unit["NeedDaemonReload"] == "yes" {
		s.warn("The unit was changed, and systemd has not read it", "systemctl daemon-reload; systemctl restart gatehouse", path)
	}
	if !strings.HasPrefix(path, adminFolder) {
		if len(programs) > 0 {
			s.warn("Another program hides the one of the package, "+packagedProgram, "rm "+strings.Join(programs, " ")+"; hash -r", programs...)
		}
		return
	}
	for _, folder := range packageFolders() {
		if packaged := folder + serviceName; p.Machine.Exists(packaged) {
			s.warn("A unit in "+adminFolder+" hides the one of the package", unhide(p, programs),
				path+" hides "+packaged, listed(packagedProgram+" is hidden by", programs))
			return
		}
	}
	present, err := p.Machine.Read(path)
	shipped, unread := systemd.Files.ReadFile(serviceName)
	if err == nil && unread == nil && !slices.Equal(settings(string(present)), settings(string(shipped))) {
		s.notice("The unit is not the one of this version", "sudo gatehouse service install; to keep settings of your own use systemctl edit gatehouse", path)
	}
}

// packagedProgram is the program of the package; the other folders come before its in
// the search for programs.
const packagedProgram = "/usr/bin/gatehouse"

func hidingPrograms(p *patient) []string {
	if !p.Machine.Exists(packagedProgram) {
		return nil
	}
	return slices.DeleteFunc([]string{"/usr/local/sbin/gatehouse", "/usr/local/bin/gatehouse"}, func(path string) bool { return !p.Machine.Exists(path) })
}

// unhide gives the commands that leave the package's units and program alone in place.
// Links to the units that go would keep those of the package from being enabled.
func unhide(p *patient, programs []string) string {
	var gone []string
	for _, name := range []string{serviceName, socketName, "gatehouse-redirect.socket", siteName, "gatehouse-notice.path", "gatehouse-notice.service"} {
		if p.Machine.Exists(adminFolder + name) {
			gone = append(gone, adminFolder+name)
		}
	}
	const all = "gatehouse.socket gatehouse-site gatehouse"
	return "systemctl stop " + all + "; systemctl disable " + all + "; rm " + strings.Join(append(gone, programs...), " ") +
		"; systemctl daemon-reload; systemctl enable --now " + all
}

// settings gives the lines of a unit that matter, without those that name the program,
// which a unit installed by hand has elsewhere.
func settings(unit string) []string {
	var lines []string
	for line := range strings.Lines(unit) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "Exec") {
			lines = append(lines, line)
		}
	}
	return lines
}

// checkRestarts asks how often systemd had to start the gateway again, and why.
func checkRestarts(ctx context.Context, p *patient, s *sheet) {
	var hung, starved int
	text, err := p.Machine.Run(ctx, "journalctl", "--unit="+serviceName, "--boot", "--lines=5000", "--output=cat", "--no-pager", "--quiet")
	if err == nil {
		hung = strings.Count(text, "Watchdog timeout")
		starved = strings.Count(text, "with result 'oom-kill'")
	}
	restarts := p.unit.Number("NRestarts")
	evidence := []string{fmt.Sprintf("restarted %s since it was started by hand or with the machine", times(restarts))}
	if p.unit["Result"] != "success" && p.unit["Result"] != "" {
		evidence = append(evidence, "its last end was "+p.unit["Result"])
	}
	if hung > 0 {
		s.warn("The gateway hung, and the watchdog ended it", logCommand+"; the disk may be slow: dmesg | tail -n 50",
			append(evidence, "ended by the watchdog "+times(hung)+" since the machine was started")...)
		return
	}
	if starved > 0 {
		s.warn("The gateway ran out of memory, and was ended", "raise MemoryMax with systemctl edit gatehouse; "+logCommand,
			append(evidence, "ended so "+times(starved)+" since the machine was started")...)
		return
	}
	since, known := p.unit.Moment(p.Machine, "ActiveEnterTimestampMonotonic")
	calm := p.runs() && known && p.Machine.Now().Sub(since) > calmAfter
	switch {
	case restarts >= restartsMany && !calm:
		s.warn("systemd starts the gateway again and again", logCommand, evidence...)
	case restarts > 0:
		s.notice("systemd had to start the gateway again", logCommand+"; systemctl reset-failed gatehouse begins to count anew", evidence...)
	}
}

// checkSandbox asks systemd how well the service is locked in.
func checkSandbox(ctx context.Context, p *patient, s *sheet) []string {
	text, err := p.Machine.Run(ctx, "systemd-analyze", "security", "--no-pager", serviceName)
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	found := regexp.MustCompile(`Overall exposure level for \S+: (\d+\.\d+)`).FindStringSubmatch(text)
	if found == nil {
		s.skip("systemd-analyze does not tell how well the service is locked in", "systemd-analyze security gatehouse")
		return nil
	}
	exposure, _ := strconv.ParseFloat(found[1], 64)
	fact := fmt.Sprintf("systemd-analyze reckons an exposure of %s, of 10", found[1])
	if exposure > exposureLimit {
		s.warn("The sandbox of the gateway has been opened", "systemctl cat gatehouse shows by which lines; take out what is not needed",
			fact, listed("changed by", p.unit.List("DropInPaths")))
	}
	return []string{fact}
}
