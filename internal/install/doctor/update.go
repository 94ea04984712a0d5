package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"strings"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// updateKeys is the file of an image with the keys of those whose updates it takes.
const updateKeys = "usr/lib/gatehouse-image/update-keys"

// checkUpdate reports which version of the system runs, which one waits, and how the last
// update ended, in the words of everyone who shows that.
func checkUpdate(_ context.Context, g *subject, s *sheet) {
	u := g.status.Update
	if !u.Image { // or the gateway does not say
		u = g.Update()
	}
	all := u.Sentences(time.UTC)
	if !u.Image {
		s.fine(sentence(all[0]))
		return
	}
	switch u.Phase {
	case site.UpdateRestarting:
	case site.UpdateTrial:
		s.find(health.Notice, sentence(u.Progress(time.UTC)), "leave the machine switched on; gatehouse update status shows how it goes on", all...)
	case site.UpdateWaiting:
		s.find(health.Notice, sentence(u.Progress(time.UTC)), "leave the machine switched on; gatehouse update FILE, without --at, installs it at once", all...)
	default:
		switch u.Default {
		case u.Running.Slot:
		case "":
			s.find(health.Warning, sentence(all[2]), "repair that, on another computer if need be; then systemctl restart gatehouse-update", all...)
		default:
			s.find(health.Notice, "Slot "+u.Running.Slot+" was chosen by hand: no update is taken until the default runs", "systemctl reboot", all...)
		}
	}
	if last := cmp.Or(u.Before, u.Last); last != nil && (last.Outcome == site.UpdateFellBack || last.Outcome == site.UpdateFailed) {
		severity, fix := health.Warning, "remove the reason, or wait for the next version; then gatehouse update FILE"
		if last.Outcome == site.UpdateFailed {
			severity, fix = health.Notice, "gatehouse update FILE tries it again"
		}
		s.find(severity, sentence(last.Sentence(time.UTC)), fix, all...)
	}
	if !g.hasUpdateKey() {
		s.find(health.Notice, "This image has no key of those whose updates it may take: it refuses every update",
			"take a backup, write the card anew with the image of a release, and restore the backup there", "no key in /"+updateKeys)
	}
	s.fine(sentence(strings.Join(all[:2], " ")), all...)
}

// hasUpdateKey reports whether the image has a key for updates.
func (g *subject) hasUpdateKey() bool {
	text, _ := fs.ReadFile(g.Machine.Files, updateKeys) // without the file there is none
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return true
		}
	}
	return false
}

// sentence returns a sentence as a summary has it, without a full stop.
func sentence(text string) string { return strings.TrimSuffix(text, ".") }
