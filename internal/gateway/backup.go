package gateway

import (
	"context"
	"io"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// backUp makes a parcel of everything that makes this gateway itself, for root, who uses the
// socket; one for an account has no certificates. It is on record before anything leaves.
func (g *Gateway) backUp(ctx context.Context, by site.Actor) (adminapi.Parcel, error) {
	return g.parcel(ctx, by)
}

func (g *Gateway) parcel(ctx context.Context, by site.Actor) (*backup.Parcel, error) {
	record := site.Record{Kind: site.KindBackupTaken, Facts: site.ByActor(by)}
	if err := g.db.AppendRecord(ctx, record); err != nil {
		return nil, fault.Wrap(fault.KindOf(err),
			"The storage takes no writes, so that a backup of the running gateway cannot be taken: stop the gateway and take it then", err)
	}
	source := backup.Source{
		Data: g.cfg.Data, Version: g.version, Database: sqlite.Files{Logger: g.log}, Now: g.clock.Now, WithoutTLS: by.Account != "",
	}
	_ = g.changes.Settle(ctx) // the backup has also what cannot be stored
	p, err := source.Running(ctx, g.changes.Unstored(), g.db.Snapshot)
	if err != nil {
		if !fault.Is(err, fault.Unavailable) && ctx.Err() == nil {
			err = fault.Wrap(fault.Unavailable, "The database cannot be backed up: "+fault.Sentence(err)+"; run gatehouse doctor", err)
		}
		return nil, err
	}
	g.log.Info("a backup is taken", "by", by.Name)
	return p, nil
}

// sealedBackUp is backUp with a parcel that is encrypted with a passphrase. It has no
// configuration: that is root's, who restores it.
func (g *Gateway) sealedBackUp(ctx context.Context, by site.Actor, passphrase site.Secret) (adminapi.Parcel, error) {
	if err := backup.JudgePassphrase(passphrase); err != nil {
		return nil, err
	}
	parcel, err := g.parcel(ctx, by)
	return sealedParcel{parcel, passphrase}, err
}

// sealedParcel is a parcel that is encrypted as it is written.
type sealedParcel struct {
	*backup.Parcel
	passphrase site.Secret
}

// Write implements [adminapi.Parcel].
func (p sealedParcel) Write(w io.Writer) error { return p.Seal(w, p.passphrase) }

// restart has Run end, so that the service manager starts the gateway again.
func (g *Gateway) restart(by site.Actor) error {
	if !g.supervisor.Restarts() {
		return fault.New(fault.Conflict, "Nothing would start this gateway again: no service manager runs it. Stop it and start it where it was started")
	}
	select {
	case g.restarting <- by:
	default: // it is on its way
	}
	return nil
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
