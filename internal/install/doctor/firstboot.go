package doctor

import (
	"context"
	"fmt"
	"path"

	"gatehouse/internal/setup/sitefile"
)

// firstBootState is left behind by a first boot that was interrupted.
const firstBootState = "/etc/gatehouse/first-boot.state"

// firstBootFiles returns the paths at which a first boot finds its file, which it renames
// in the end, and that of its state.
func firstBootFiles() []string {
	all := []string{firstBootState}
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
	for _, file := range firstBootFiles() {
		_, err := g.Machine.Stat(file)
		if mayNot(err) {
			s.unread(path.Dir(file), err)
			return
		}
		if err == nil {
			evidence = append(evidence, file+" is present")
		}
	}
	if g.site.Loaded() && g.site["Result"] != "success" {
		evidence = append(evidence, fmt.Sprintf("%s: its last end was %s, status %s", siteName, g.site["Result"], g.site["ExecMainStatus"]))
	}
	if len(evidence) > 0 {
		s.warn("The first boot is not finished: its site file was not applied, or not all of it",
			"read gatehouse-result.txt beside the site file and correct what it names; systemctl start gatehouse-site", evidence...)
	}
	s.fine("No site file waits")
}
