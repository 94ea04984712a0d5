package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"

	"gatehouse/internal/setup/sitefile"
)

// firstBootState is left behind by a first boot that was interrupted.
const firstBootState = "/etc/gatehouse/first-boot.state"

// siteFiles returns the paths at which a first boot finds its file. It renames the file
// in the end.
func siteFiles() []string {
	var all []string
	for _, folder := range append(sitefile.BootFolders(), "/etc/gatehouse") {
		for _, name := range sitefile.FileNames() {
			all = append(all, path.Join(folder, name))
		}
	}
	return all
}

// checkFirstBoot checks that the site file of an installer was applied.
func checkFirstBoot(_ context.Context, g *subject, s *sheet) {
	switch {
	case !g.installed():
		s.fine("There is none: the gateway is no service")
		return
	case g.site["ActiveState"] == "activating":
		s.notice("The site file is being applied", "wait some minutes, then "+asRoot)
		return
	}
	var evidence []string
	for _, file := range append(siteFiles(), firstBootState) {
		_, err := g.Machine.Stat(file)
		if mayNot(err) {
			s.unread(path.Dir(file), err)
			return
		}
		if err == nil {
			evidence = append(evidence, file+" is present")
		}
	}
	failed := g.site.Loaded() && !slices.Contains([]string{"", "success"}, g.site["Result"])
	if failed {
		evidence = append(evidence, fmt.Sprintf("%s: its last end was %s, status %s", siteName, g.site["Result"], g.site["ExecMainStatus"]))
	}
	if len(evidence) > 0 {
		fix := "read gatehouse-result.txt beside the site file and correct what it names; systemctl start gatehouse-site"
		if failed {
			fix += "; if the site is set up without it, systemctl reset-failed gatehouse-site"
		}
		s.warn("The first boot is not finished: its site file was not applied, or not all of it", fix, evidence...)
	}
	s.fine("No site file waits")
}
