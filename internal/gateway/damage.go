package gateway

import (
	"context"
	"errors"

	"gatehouse/internal/health"
)

// watchDamage names as conditions what was and what is found wrong with the database and
// its copy.
func (g *Gateway) watchDamage() {
	if story := g.db.Rescued(); story != "" {
		g.log.Error("the gateway goes on with a new database", "story", story)
		g.conditions.Raise(health.Condition{
			Code: health.StorageDamaged, Severity: health.Warning,
			Summary: "At the start " + story,
			Advice:  "See what is missing with gatehouse journal verify; check the disk with dmesg, and replace the card; until the next start this stays here",
		})
	}
	g.db.WatchDamage(func(error) {
		g.conditions.Raise(health.Condition{
			Code: health.StorageDamaged, Severity: health.Warning,
			Summary: "A page of the database is damaged",
			Advice:  "Restart the gateway at a quiet moment: it sets the database aside and carries over what can be read; check the disk with dmesg",
		})
	})
	g.db.WatchCopy(func(err error) {
		if err == nil {
			g.conditions.Clear(health.CopyFailing)
			return
		}
		g.log.Warn("the copy of who may open what cannot be written", "error", err)
		g.conditions.Raise(health.Condition{
			Code: health.CopyFailing, Severity: health.Notice, // below what keeps records from the disk
			Summary: "The copy of accounts, sessions, stations and grants cannot be written: were the database damaged now, the gateway would start with an old one",
			Advice:  "Check the folder that data_copy names, its owner and its free space",
		})
	})
}

// watchStorage ends the gateway, for the service manager to start it again, when a
// damaged page keeps every record from the disk: a start sets the database aside. Doors
// open without that too; so it does this neither without a service manager, nor again
// where the start before did it.
func (g *Gateway) watchStorage(ctx context.Context) error {
	select {
	case <-g.db.Broken():
		if g.supervisor.Patience() > 0 && g.db.Rescued() == "" {
			return errors.New("the database is damaged; the next start goes on with what can be read of it")
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}
