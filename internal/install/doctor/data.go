package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/board/machine"
)

// checkData sees that the gateway's user, and nobody else, has the data.
func checkData(_ context.Context, p *patient, s *sheet) {
	checkSandboxed(p, s)
	checkOwners(p, s)
	s.fine("It is the gateway's alone", p.settings.Data)
}

// checkOwners sees that the data is for the gateway alone, and that it can use it.
func checkOwners(p *patient, s *sheet) {
	folder, err := p.Machine.Stat(p.settings.Data)
	if err != nil {
		return // the database says so
	}
	owner, known := machine.FileOwner(folder)
	user, found := p.Machine.UserID(p.unit["User"])
	foreign := p.foreignFiles(owner)
	switch {
	case known && found && !p.alien && owner != user:
		s.fatal("The data does not belong to the gateway's user", fmt.Sprintf("chown -R %s: %s; %s", p.unit["User"], p.settings.Data, p.told("restart")),
			fmt.Sprintf("%s is owned by user %d, and %s is %d", p.settings.Data, owner, p.unit["User"], user))
	case !known || len(foreign) == 0:
	case p.runs():
		s.warn("Some of the data does not belong to the gateway's user, which cannot use it", p.giveBack(), foreign...)
	default:
		s.fatal("Some of the data does not belong to the gateway's user, which cannot use it", p.giveBack()+"; "+p.told("restart"), foreign...)
	}
	var open []string
	for _, path := range append([]string{p.settings.Data}, p.privateFiles()...) {
		if info, err := p.Machine.Stat(path); err == nil && info.Mode().Perm()&othersAny != 0 {
			open = append(open, path+" has mode "+info.Mode().Perm().String())
		}
	}
	if len(open) > 0 {
		s.warn("Others may read the gateway's data", "chmod -R go= "+p.settings.Data, open...)
	}
}

// giveBack is the command that gives all of the data to the owner of its folder.
func (p *patient) giveBack() string {
	return "chown -R --reference=" + p.settings.Data + " " + p.settings.Data
}

// foreignFiles lists the files of the data that are another user's than the owner's.
func (p *patient) foreignFiles(owner uint32) []string {
	var foreign []string
	for _, path := range append(p.privateFiles(), p.data("tls"), p.data("tls/ca.crt"), p.data("tls/server.crt")) {
		info, err := p.Machine.Stat(path)
		if err != nil {
			continue
		}
		if uid, ok := machine.FileOwner(info); ok && uid != owner {
			foreign = append(foreign, fmt.Sprintf("%s is owned by user %d, and not %d", path, uid, owner))
		}
	}
	return foreign
}

// privateFiles lists the files that must be for the gateway alone.
func (p *patient) privateFiles() []string {
	var all []string
	for _, name := range []string{databaseFile, databaseFile + "-wal", databaseFile + "-shm", "token.key", "setup.code", lockFile, "tls/ca.key", "tls/server.key"} {
		all = append(all, p.data(name))
	}
	return all
}

// checkSandboxed sees that the sandbox of the service lets it write where its data is
// configured to be.
func checkSandboxed(p *patient, s *sheet) {
	data := p.wanted
	works := p.runs() && filepath.Clean(data) == p.settings.Data
	if !p.installed() || p.alien || works || !filepath.IsAbs(data) || p.broken != nil {
		return
	}
	for _, home := range []string{"/home", "/root", "/run/user"} {
		if p.unit["ProtectHome"] == "yes" && isWithin(data, home) {
			s.fatal("The data is configured to be in "+home+", which services do not see", "move it elsewhere, such as to /srv/gatehouse, and set data in the configuration; "+allow("/srv/gatehouse"), "data is "+data)
			return
		}
	}
	if p.unit["ProtectSystem"] != "strict" || p.mayWrite(data) {
		return
	}
	s.fatal("The gateway may not write where its data is configured to be", allow(data), "data is "+data,
		listed("it may write to", p.writable()))
}

// allow says how the service gets the right to write to a folder.
func allow(path string) string {
	return "systemctl edit gatehouse, and write: [Service], ReadWritePaths=" + path + ", each on a line; then systemctl restart gatehouse"
}

// writable lists the folders that the sandbox lets the service write to.
func (p *patient) writable() []string {
	var all []string
	for _, name := range p.unit.List("StateDirectory") {
		name, _, _ = strings.Cut(name, ":")
		all = append(all, "/var/lib/"+name)
	}
	for _, path := range p.unit.List("ReadWritePaths") {
		all = append(all, strings.TrimLeft(path, "-+"))
	}
	return all
}

func (p *patient) mayWrite(path string) bool {
	return slices.ContainsFunc(p.writable(), func(folder string) bool {
		return isWithin(path, folder) || isWithin(p.direct(path), p.direct(folder))
	})
}

// direct gives a path without symbolic links, where it exists.
func (p *patient) direct(path string) string {
	if found, err := p.Machine.Real(path); err == nil {
		return found
	}
	return path
}

func isWithin(path, folder string) bool {
	path, folder = filepath.Clean(path), filepath.Clean(folder)
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
