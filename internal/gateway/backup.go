package gateway

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"gatehouse/internal/adminapi"
	"gatehouse/internal/backup"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/sqlite"
)

// backUp makes a parcel of everything that makes this gateway itself. It is on record
// before anything leaves.
func (g *Gateway) backUp(ctx context.Context, by site.Actor) (adminapi.Parcel, error) {
	record := site.Record{Kind: site.KindBackupTaken, Facts: site.ByActor(by)}
	if err := g.db.AppendRecord(ctx, record); err != nil {
		return nil, fault.Wrap(fault.KindOf(err),
			"The storage takes no writes, so that a backup of the running gateway cannot be taken: stop the gateway and take it then", err)
	}
	source := backup.Source{Data: g.cfg.Data, Version: g.version, Database: sqlite.Files{Logger: g.log}, Now: g.clock.Now}
	p, err := source.Running(ctx, g.db)
	if err != nil {
		if !fault.Is(err, fault.Unavailable) && ctx.Err() == nil {
			err = fault.Wrap(fault.Unavailable, "The database cannot be backed up: "+fault.Sentence(err)+"; run gatehouse doctor", err)
		}
		return nil, err
	}
	g.log.Info("a backup is taken", "by", by.Name)
	return p, nil
}

// TakeData takes the data directory of a gateway that does not run, for a command that
// works on its files, and completes what a restore before has begun. Conflict when a
// gateway runs there. Where there is no such directory it is made for the system's user
// of the gateway, if root asks and there is one; abandon removes it again.
func TakeData(data string, log *slog.Logger) (release, abandon func(), err error) {
	_, missing := os.Stat(data)
	made := errors.Is(missing, fs.ErrNotExist)
	release, err = takeDirectory(data)
	if err != nil {
		return nil, nil, err
	}
	abandon = release
	if made {
		abandon = func() {
			_ = os.Remove(filepath.Join(data, "lock"))
			_ = os.Remove(data)
			release()
		}
	}
	if err = errors.Join(giveAway(data, made), backup.Complete(data, log)); err != nil {
		abandon()
		return nil, nil, err
	}
	return release, abandon, nil
}

// systemUser is whom the packaged unit runs the gateway as.
const systemUser = "gatehouse"

// giveAway makes a directory that root has just made the gateway's, and in any case its
// lock the directory's owner's: root may have made it, and the gateway has to open it.
func giveAway(data string, made bool) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if owner, err := user.Lookup(systemUser); made && err == nil {
		uid, notUser := strconv.Atoi(owner.Uid)
		gid, notGroup := strconv.Atoi(owner.Gid)
		if err := errors.Join(notUser, notGroup); err != nil {
			return err
		}
		if err := os.Chown(data, uid, gid); err != nil {
			return err
		}
	}
	info, err := os.Stat(data)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	// Lchown: the owner of the directory may have put a link there, to a file of root's.
	err = os.Lchown(filepath.Join(data, "lock"), int(stat.Uid), int(stat.Gid))
	if errors.Is(err, syscall.EROFS) {
		return nil // nothing was made
	}
	return err
}
