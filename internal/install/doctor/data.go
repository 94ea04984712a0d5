package doctor

import (
	"context"
	"fmt"
	"path/filepath"

	"gatehouse/internal/board/machine"
)

const (
	// othersAny are the permissions that nobody but the owner has for the data.
	othersAny = 0o077

	// roomFatal and roomLow are how little room the disk may have, in bytes: below the
	// first nothing can be relied on to be written.
	roomFatal = 16 << 20
	roomLow   = 128 << 20
)

// checkData checks that the gateway's user, and nobody else, has the data.
func checkData(_ context.Context, g *subject, s *sheet) {
	folder, err := g.Machine.Stat(g.settings.Data)
	if err != nil {
		s.fine("There is none yet", g.settings.Data)
		return
	}
	owner, known := machine.FileOwner(folder) // systemd sees to that of the folder itself
	var wrong []string
	for _, path := range g.privatePaths() {
		info, err := g.Machine.Stat(path)
		if err != nil {
			continue
		}
		if uid, ok := machine.FileOwner(info); ok && known && uid != owner {
			wrong = append(wrong, fmt.Sprintf("%s is owned by user %d, and not %d", path, uid, owner))
		}
		if info.Mode().Perm()&othersAny != 0 {
			wrong = append(wrong, path+" has mode "+info.Mode().Perm().String())
		}
	}
	if len(wrong) > 0 {
		s.warn("The data is not for the gateway's user alone",
			fmt.Sprintf("chown -R --reference=%[1]s %[1]s; chmod -R go= %[1]s; %[2]s", g.settings.Data, g.command("restart")), wrong...)
	}
	s.fine("It is the gateway's alone", g.settings.Data)
}

// privatePaths lists what must be for the gateway alone.
func (g *subject) privatePaths() []string {
	all := []string{g.settings.Data}
	for _, name := range []string{databaseFile, databaseFile + "-wal", databaseFile + "-shm", "token.key", "setup.code", "lock", "tls/ca.key", "tls/server.key"} {
		all = append(all, g.data(name))
	}
	return all
}

// checkDisk checks that the file system of the data takes what is written.
func checkDisk(_ context.Context, g *subject, s *sheet) {
	folder := g.settings.Data
	for folder != "/" && !g.Machine.Exists(folder) { // before the first start
		folder = filepath.Dir(folder)
	}
	room, err := g.Machine.Space(folder)
	if err != nil {
		s.unread("how much room the disk has", err)
		return
	}
	if room.ReadOnly {
		s.fatal("The disk is read-only: nothing is recorded", "find the reason with dmesg | grep -i ext4; replace the card if it is worn", g.settings.Data)
	}
	var held int64
	if info, err := g.Machine.Stat(g.data(databaseFile)); err == nil {
		held = info.Size()
	}
	growth := max(int64(g.settings.Journal.MaxSize)-held, 0)
	free := fmt.Sprintf("%s free of %s", machine.Size(room.Free), machine.Size(room.Total))
	evidence := []string{free, fmt.Sprintf("the database has %s, and journal.max_size is %s", machine.Size(held), machine.Size(int64(g.settings.Journal.MaxSize))), g.settings.Data}
	find := "du -xh /var 2>/dev/null | sort -rh | head -n 20"
	switch {
	case room.Free < roomFatal:
		s.fatal("The disk is nearly full", "make room: "+find, evidence...)
	case room.Free < roomLow, room.Free < growth:
		s.warn("The disk has little room left, and the journal may grow by "+machine.Size(growth), "make room ("+find+"), or lower max_size in [journal]", evidence...)
	}
	s.fine(free, g.settings.Data)
}
