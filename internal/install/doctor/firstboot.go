package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"

	"gatehouse/internal/setup/sitefile"
)

const (
	// firstBootState is what a first boot leaves that did not come to its end.
	firstBootState = "/etc/gatehouse/first-boot.state"
	resultFile     = "gatehouse-result.txt"
)

// siteFiles are where a first boot looks for its file, which it renames in the end.
func siteFiles() []string {
	var all []string
	for _, folder := range append(sitefile.BootFolders(), "/etc/gatehouse") {
		for _, name := range sitefile.FileNames() {
			all = append(all, path.Join(folder, name))
		}
	}
	return all
}

// checkFirstBoot sees whether the site file that an installer left was applied.
func checkFirstBoot(_ context.Context, p *patient, s *sheet) {
	if !p.installed() {
		s.fine("None is made: the gateway is no service")
		return
	}
	if p.site["ActiveState"] == "activating" {
		s.notice("The site file is being applied", "wait some minutes, then "+asRoot)
		return
	}
	pending, evidence := p.pendingSites(s)
	failed := p.site.Loaded() && !slices.Contains([]string{"", "success"}, p.site["Result"])
	if failed {
		evidence = append(evidence, fmt.Sprintf("%s: its last end was %s, status %s", siteName, p.site["Result"], p.site["ExecMainStatus"]))
	}
	left := p.Machine.Exists(firstBootState)
	if left {
		evidence = append(evidence, firstBootState+" is left")
	}
	const read = "read " + resultFile + " beside the site file; mend it; "
	switch {
	case failed && pending:
		s.warn("The first boot failed: the site file was not applied", read+"systemctl start gatehouse-site", evidence...)
	case failed:
		s.warn("The first boot failed", read+"systemctl start gatehouse-site; if it was done since, systemctl reset-failed gatehouse-site", evidence...)
	case pending:
		s.warn("A site file waits, and was not applied", read+"systemctl start gatehouse-site", evidence...)
	case left:
		s.warn("A first boot did not come to its end, and its site file is gone",
			"put the site file back; systemctl start gatehouse-site; or, if all is set up, rm "+firstBootState, evidence...)
	}
	s.fine("No site file waits")
}

// pendingSites names the site files that wait, and the results beside them.
func (p *patient) pendingSites(s *sheet) (pending bool, evidence []string) {
	for _, file := range siteFiles() {
		_, err := p.Machine.Stat(file)
		if mayNot(err) {
			s.denied(path.Dir(file), err)
			return pending, evidence
		}
		if err != nil {
			continue
		}
		pending = true
		evidence = append(evidence, file+" waits")
		if result := path.Join(path.Dir(file), resultFile); p.Machine.Exists(result) {
			evidence = append(evidence, result+" says how it went")
		}
	}
	return pending, evidence
}
