package service

import (
	"fmt"
	"strings"

	"gatehouse/systemd"
)

const (
	unitFolder   = "/etc/systemd/system/"
	usersFile    = "/etc/sysusers.d/gatehouse.conf"
	foldersFile  = "/etc/tmpfiles.d/gatehouse.conf"
	configFile   = "/etc/gatehouse/gatehouse.toml"
	issueLink    = "/etc/issue.d/gatehouse.issue" // systemd-tmpfiles creates it
	noticeFolder = "/run/gatehouse-notice"        // systemd creates it for systemd.Notice

	// packagedProgram is the program that the units of the package run.
	packagedProgram = "/usr/bin/gatehouse"

	// mark is the first line of every file that is written here, apart from the
	// configuration. A file without it was written by others.
	mark = "# Written by \"gatehouse service install\", which writes it anew at each run.\n"
)

// enabledUnits start with the system; the others follow them.
func enabledUnits() []string { return []string{systemd.Socket, systemd.Site, systemd.Service} }

// file is one file of the service.
type file struct{ path, text string }

// shipped returns the files that are installed, all with the mark, and whose units run
// the program at executable.
func shipped(executable string) ([]file, error) {
	var all []file
	for _, f := range []struct{ path, name string }{
		{usersFile, "gatehouse.sysusers"},
		{foldersFile, "gatehouse.tmpfiles"},
		{unitFolder + systemd.Socket, systemd.Socket},
		{unitFolder + systemd.Redirect, systemd.Redirect},
		{unitFolder + systemd.Service, systemd.Service},
		{unitFolder + systemd.Site, systemd.Site},
		{unitFolder + systemd.Notice, systemd.Notice},
		{unitFolder + systemd.NoticePath, systemd.NoticePath},
	} {
		text, err := systemd.Files.ReadFile(f.name)
		if err != nil {
			return nil, fmt.Errorf("reading a unit within this program: %w", err)
		}
		all = append(all, file{f.path, mark + strings.ReplaceAll(string(text), packagedProgram, executable)})
	}
	return all, nil
}
