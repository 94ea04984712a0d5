package gateway

import (
	"context"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
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

// TakeData locks the data directory of a gateway that does not run, for its start or a
// command that works on its files as its owner, and completes what an earlier restore has
// begun. A directory that does not exist is created. Conflict when a gateway runs there.
func TakeData(data string) (release func(), err error) {
	release, err = takeDirectory(data)
	if err != nil {
		return nil, err
	}
	if err = backup.Complete(data); err != nil {
		release()
		return nil, err
	}
	return release, nil
}
