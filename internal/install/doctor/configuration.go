package doctor

import (
	"context"
	"errors"
	"io/fs"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
)

// checkConfiguration reads what the gateway would at its next start.
func checkConfiguration(_ context.Context, p *patient, s *sheet) {
	if p.broken != nil {
		reportBroken(p, s)
	}
	var names []string
	for _, f := range p.files {
		names = append(names, f.Name)
		if info, err := p.Machine.Stat(f.Name); err == nil {
			checkMode(p, s, f.Name, info)
		}
	}
	checkChanged(p, s)
	if p.broken != nil {
		return
	}
	if len(names) == 0 {
		s.fine("There is none: every key has its default")
	}
	s.fine("It is right", listed("read", names))
}

func reportBroken(p *patient, s *sheet) {
	problems, ok := errors.AsType[*config.Error](p.broken)
	switch {
	case mayNot(p.broken):
		s.skip("this user may not read the configuration", asRoot)
		return
	case !ok:
		s.fatal("The configuration cannot be read", "gatehouse serve --check", sentence(p.broken))
		return
	}
	var evidence []string
	for _, one := range problems.Problems {
		evidence = append(evidence, one.String())
	}
	mend := "mend what is named, check it with gatehouse serve --check, then " + p.told("restart")
	if p.runs() {
		s.warn("The configuration has "+plural(len(evidence), "problem")+", and the gateway goes on with what it had", mend, evidence...)
		return
	}
	s.fatal("The gateway cannot start with this configuration: "+plural(len(evidence), "problem"), mend, evidence...)
}

// The permissions of files that matter.
const (
	othersWrite = 0o022
	othersRead  = 0o044
	othersAny   = 0o077
)

// checkMode sees that nobody else changes the file and that the gateway's user may
// read it.
func checkMode(p *patient, s *sheet, name string, info fs.FileInfo) {
	mode := info.Mode().Perm()
	if mode&othersWrite != 0 {
		s.warn("Others than its owner may change the configuration", "chmod go-w "+name, name+" has mode "+mode.String())
	}
	owner, known := machine.FileOwner(info)
	user, found := p.Machine.UserID(p.unit["User"])
	if known && found && mode&othersRead == 0 && owner != user {
		s.warn("The gateway's user may not read the configuration", "chmod 644 "+name, name+" has mode "+mode.String()+" and is not owned by "+p.unit["User"])
	}
}

// checkChanged compares the time of the files with that at which the gateway read
// them. systemd notes the end of a start and of a reload; without it only the start is
// known.
func checkChanged(p *patient, s *sheet) {
	if !p.runs() {
		return
	}
	did, when := "read it", "StateChangeTimestampMonotonic"
	if result := p.unit["ReloadResult"]; result != "" && result != "success" {
		s.warn("The last reload of the configuration failed, and the gateway goes on with what it had", logCommand+"; then "+p.told("reload"), "its end was "+result)
		when = "ActiveEnterTimestampMonotonic"
	}
	read, known := p.unit.Moment(p.Machine, when)
	if !known || p.alien {
		read, did = p.status.Started.Time, "started"
	}
	for _, f := range p.files {
		info, err := p.Machine.Stat(f.Name)
		if err == nil && info.ModTime().After(read) {
			s.notice("The configuration was changed after the gateway had "+did, p.told("reload"),
				f.Name+" was changed at "+moment(info.ModTime()), "the gateway "+did+" at "+moment(read))
		}
	}
}
