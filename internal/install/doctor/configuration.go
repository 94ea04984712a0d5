package doctor

import (
	"context"
	"errors"
	"time"

	"gatehouse/internal/setup/tomlfile"
)

// checkConfiguration reads what the gateway would at its next start.
func checkConfiguration(_ context.Context, g *subject, s *sheet) {
	checkChanged(g, s)
	if g.broken != nil {
		reportBroken(g, s)
		return
	}
	var names []string
	for _, f := range g.files {
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		s.fine("There is none: every key has its default")
	}
	s.fine("It is right", listed("read", names))
}

func reportBroken(g *subject, s *sheet) {
	problems, ok := errors.AsType[*tomlfile.Error](g.broken)
	switch {
	case mayNot(g.broken):
		s.skip("this user may not read the configuration", asRoot)
		return
	case !ok:
		s.fatal("The configuration cannot be read", "gatehouse serve --check", sentence(g.broken))
		return
	}
	var evidence []string
	for _, one := range problems.Problems {
		evidence = append(evidence, one.String())
	}
	fix := "correct what is named, check it with gatehouse serve --check, then " + g.command("restart")
	if g.runs() {
		s.warn("The configuration has "+plural(len(evidence), "problem")+"; the gateway keeps the one that it has read", fix, evidence...)
		return
	}
	s.fatal("The gateway cannot start with this configuration: "+plural(len(evidence), "problem"), fix, evidence...)
}

// checkChanged compares the time of the files with that at which the gateway read them:
// systemd notes the end of each start and reload, in whole seconds.
func checkChanged(g *subject, s *sheet) {
	if !g.runs() {
		return
	}
	read := g.unitTime("StateChangeTimestamp")
	if read.IsZero() {
		read = g.status.Started.Time
	}
	for _, f := range g.files {
		info, err := g.Machine.Stat(f.Name)
		if err == nil && info.ModTime().After(read.Add(time.Second)) {
			s.notice("The configuration was changed after the gateway had read it", g.command("reload"),
				f.Name+" was changed at "+moment(info.ModTime()), "the gateway read it at "+moment(read))
		}
	}
}
