package doctor

import (
	"context"
	"fmt"
	"path/filepath"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

const (
	// othersAny are the permissions that only the owner may have for the data.
	othersAny = 0o077

	// roomFatal and roomLow are how little room the disk may have, in bytes: below the
	// first nothing can be relied on to be written.
	roomFatal = 16 << 20
	roomLow   = 128 << 20
)

// checkData checks that the data is for the gateway's user alone.
func checkData(_ context.Context, g *subject, s *sheet) {
	folder, err := g.Machine.Stat(g.settings.Data)
	if err != nil {
		s.fine("There is none yet", g.settings.Data)
		return
	}
	owner, known := machine.FileOwner(folder) // systemd sees to that of the folder itself
	var wrong []string
	for _, name := range []string{"", databaseFile, databaseFile + "-wal", databaseFile + "-shm", "token.key", "setup.code", "lock", "tls/ca.key", "tls/server.key"} {
		path := g.data(name)
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
		s.find(health.Warning, "The data is not for the gateway's user alone",
			fmt.Sprintf("chown -R --reference=%[1]s %[1]s; chmod -R go= %[1]s; %[2]s", g.settings.Data, g.command("restart")), wrong...)
	}
	s.fine("It is the gateway's alone", g.settings.Data)
}

// folder returns the folder of the data; before the first start the one where it will be.
func (g *subject) folder() string {
	folder := g.settings.Data
	for folder != "/" && !g.Machine.Exists(folder) {
		folder = filepath.Dir(folder)
	}
	return folder
}

// checkDisk checks that the file system of the data takes what is written.
func checkDisk(_ context.Context, g *subject, s *sheet) {
	room, err := g.Machine.Space(g.folder())
	if err != nil {
		s.unread("how much room the disk has", err)
		return
	}
	if room.ReadOnly {
		s.find(health.Fatal, "The disk is read-only: nothing is recorded", "find the reason with dmesg | grep -i ext4; replace the card if it is worn", g.settings.Data)
	}
	var held int64
	if info, err := g.Machine.Stat(g.data(databaseFile)); err == nil {
		held = info.Size()
	}
	growth := max(int64(g.settings.Journal.MaxSize)-held, 0)
	free := fmt.Sprintf("%s free of %s", machine.Size(room.Free), machine.Size(room.Total))
	find := "du -xh /var 2>/dev/null | sort -rh | head -n 20"
	switch {
	case room.Free < roomFatal:
		s.find(health.Fatal, "The disk is nearly full", "make room: "+find, free, g.settings.Data)
	case room.Free < roomLow, room.Free < growth:
		s.find(health.Warning, "The disk has little room left, and the journal may grow by "+machine.Size(growth), "make room ("+find+"), or lower max_size in [journal]", free, g.settings.Data)
	}
	s.fine(free, g.settings.Data)
}

// checkDatabase checks the pages of the database.
func checkDatabase(ctx context.Context, g *subject, s *sheet) {
	state, err := g.examineDatabase(ctx)
	evidence := []string{fmt.Sprintf("schema %d, records %d to %d", state.Schema, state.First, state.Last)}
	repair := "keep a copy of " + g.settings.Data + ", then put a backup in its place: gatehouse restore FILE"
	switch {
	case fault.Is(err, fault.NotFound) && !g.runs():
		s.find(health.Notice, "There is no database yet: the gateway creates it at its first start", g.command("start"), "none at "+g.data(databaseFile))
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound):
		s.find(health.Fatal, "The database cannot be used", repair, fault.Text(err))
	case err != nil:
		s.unread("the database", err)
	case state.Damage != "":
		s.find(health.Fatal, "The database is damaged", repair, append(evidence, state.Damage)...)
	}
	s.fine("It is sound: "+machine.Size(state.Size), evidence...)
}

// examineDatabase asks a running gateway, because no other process can open its database.
func (g *subject) examineDatabase(ctx context.Context) (site.DatabaseState, error) {
	if g.runs() {
		return g.gateway.Database(ctx)
	}
	return g.Database(ctx, g.data(databaseFile))
}
