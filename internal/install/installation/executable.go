package installation

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"syscall"

	"gatehouse/internal/fault"
)

// copyAdvice is what to do about a program that stands in the wrong place.
const copyAdvice = `copy it with "sudo install -m 755 gatehouse /usr/local/bin/" and run "sudo /usr/local/bin/gatehouse service install"`

// plainPath is a path that needs no quoting in a unit.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._+-]+)+$`)

// checkExecutable refuses a program that the service could not run, that would be
// gone after a restart of the machine, or that somebody but root may exchange.
func (s *Service) checkExecutable() error {
	refuse := func(why string) error {
		return fault.New(fault.Invalid, fmt.Sprintf("the program %s %s: %s", s.executable, why, copyAdvice))
	}
	if !plainPath.MatchString(s.executable) {
		return refuse("has characters in its path that a unit would misread")
	}
	for folder, why := range closedFolders() {
		if strings.HasPrefix(s.executable, folder+"/") {
			return refuse(why)
		}
	}
	for at := s.executable; ; at = path.Dir(at) {
		info, err := os.Lstat(s.at(at))
		if err != nil {
			return refuse("cannot be looked at (" + err.Error() + ")")
		}
		if why := s.unfit(at, info); why != "" {
			return refuse(why)
		}
		if at == "/" {
			return nil
		}
	}
}

// closedFolders are those from which no service is run, with the reason.
func closedFolders() map[string]string {
	const hidden = "is where the service, which sees no home folders, cannot run it"
	const fleeting = "is where it would be gone after a restart of the machine"
	return map[string]string{
		"/home": hidden, "/root": hidden,
		"/tmp": fleeting, "/var/tmp": fleeting, "/run": fleeting, "/dev": fleeting, "/proc": fleeting, "/sys": fleeting,
	}
}

// unfit says why the program, or a folder above it, will not do; "": it will.
func (s *Service) unfit(at string, info fs.FileInfo) string {
	mode := info.Mode()
	isProgram := at == s.executable
	owner, known := info.Sys().(*syscall.Stat_t)
	// Debian lets the members of its group staff, who are as good as root, write there.
	staff := !isProgram && (at == "/usr/local" || strings.HasPrefix(at, "/usr/local/"))
	switch {
	case isProgram && !mode.IsRegular():
		return "is no file"
	case !isProgram && !mode.IsDir():
		return "is reached by a link, " + at
	case mode.Perm()&0o001 == 0 && isProgram:
		return "may not be run by the user " + user
	case mode.Perm()&0o001 == 0:
		return "is in the folder " + at + ", which the user " + user + " may not enter"
	case !known || int(owner.Uid) != s.trusted:
		return "could be exchanged, because " + at + " does not belong to root"
	case mode.Perm()&0o002 != 0, mode.Perm()&0o020 != 0 && owner.Gid != 0 && !staff:
		return "could be exchanged, because others than root may write " + at
	default:
		return ""
	}
}
