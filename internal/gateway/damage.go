package gateway

import (
	"context"
	"errors"

	"gatehouse/internal/health"
)

// rescued raises the condition of a database that was damaged.
func (g *Gateway) rescued(story string) {
	g.log.Error("the gateway continues with a new database", "story", story)
	g.conditions.Report(health.Warning, health.StorageDamaged,
		"At the start "+story,
		"See what is missing with gatehouse journal verify; check the disk with dmesg, and replace the card; this finding stays until the next start")
}

// reportTakenBack raises a condition for as long as the database of a newer version is kept
// beside the one of before.
func (g *Gateway) reportTakenBack(ctx context.Context) {
	taken, ok, err := g.db.TakenBack(ctx)
	if err != nil {
		g.log.Warn("what was taken back from a newer version cannot be read", "error", err)
	}
	if !ok {
		return
	}
	severity, advice := health.Notice, "Nothing is to be done: "
	if len(taken.Undone) > 0 {
		severity, advice = health.Warning, "Make the changes again that were undone; "
	}
	if taken.Lost > 0 {
		severity = health.Warning
		advice = "Revoke again what was revoked since then; check the disk with dmesg, and replace the card; make the changes again that were undone; "
	}
	g.conditions.Report(severity, health.DataTakenBack,
		"At "+taken.Time.String()+" "+taken.String(),
		advice+"what the records revoked stays revoked, and who logged in meanwhile logs in again; this finding stays until the next upgrade, or until gatehouse.db.newer in the data directory is removed and the gateway restarted")
}

// damageFound raises the condition of a damaged page in the open database.
func (g *Gateway) damageFound(error) {
	g.conditions.Report(health.Warning, health.StorageDamaged,
		"A page of the database is damaged",
		"Restart the gateway at a quiet moment: it sets the database aside and carries over what can be read; check the disk with dmesg")
}

// copyTried raises or clears the condition of a copy that cannot be written.
func (g *Gateway) copyTried(err error) {
	if err == nil {
		g.conditions.Clear(health.CopyFailing)
		return
	}
	g.conditions.Report(health.Notice, health.CopyFailing, // less severe than a failing store
		"The copy of accounts, sessions, stations and grants cannot be written: if the database is damaged now, the gateway starts with an old copy",
		"Check the folder that data_copy names, its owner and its free space")
}

// watchStorage ends the gateway when a damaged page prevents every write, so that the
// service manager starts it again: a start sets the database aside. Doors open without
// that, so it does not end a gateway without a service manager, nor one whose last
// start did that already.
func (g *Gateway) watchStorage(ctx context.Context) error {
	select {
	case <-g.db.Broken():
		if g.supervisor.Patience() > 0 && g.db.Rescued() == "" {
			return errors.New("the database is damaged; the next start continues with what can be read of it")
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}
