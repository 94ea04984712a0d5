package service

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

// plainPath is a path that needs no quoting in a unit.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._+-]+)+$`)

// hiddenFolders are those that a service does not see, or that a restart empties.
var hiddenFolders = regexp.MustCompile(`^/(home|root|tmp|var/tmp|run|dev|proc|sys)/`)

// checkExecutable refuses a program that the service could not run, or that others than
// root can replace: systemd runs it as root too.
func (s *Service) checkExecutable() error {
	refuse := func(why string) error {
		return fault.New(fault.Invalid, fmt.Sprintf("the program %s %s: copy it with \"sudo install -m 755 gatehouse /usr/local/bin/\" and run \"sudo /usr/local/bin/gatehouse service install\"", s.Executable, why))
	}
	if !plainPath.MatchString(s.Executable) {
		return refuse("has characters in its path that a unit would misread")
	}
	if hiddenFolders.MatchString(s.Executable) {
		return refuse("is in a folder that the service does not see, or that a restart of the machine empties")
	}
	for at := s.Executable; ; at = path.Dir(at) {
		info, err := os.Lstat(s.at(at))
		switch {
		case err != nil:
			return refuse("cannot be read (" + err.Error() + ")")
		case info.Mode().Perm()&0o001 == 0:
			return refuse("cannot be run by the user gatehouse, because of the mode of " + at)
		case s.replaceable(at, info):
			return refuse("could be replaced by others than root, who may write " + at)
		case at == "/":
			return nil
		}
	}
}

// replaceable reports whether others than root may write a file or folder. Debian lets
// the members of its group staff, who are as good as root, write below /usr/local.
func (s *Service) replaceable(at string, info fs.FileInfo) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	staff := info.IsDir() && strings.HasPrefix(at+"/", "/usr/local/")
	mode := info.Mode()
	return !known || int(owner.Uid) != s.trusted || mode&fs.ModeSymlink != 0 ||
		mode.Perm()&0o002 != 0 || mode.Perm()&0o020 != 0 && owner.Gid != 0 && !staff
}
