package doctor

import (
	"context"
	"errors"

	"gatehouse/internal/setup/tomlfile"
)

// checkConfiguration reads what the gateway would at its next start.
func checkConfiguration(_ context.Context, g *subject, s *sheet) {
	if g.broken != nil {
		reportBroken(g, s)
		return
	}
	if len(g.files) == 0 {
		s.fine("There is none: every key has its default")
	}
	for _, f := range g.files {
		s.fine("It is right", f.Name)
	}
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
