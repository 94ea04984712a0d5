package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/health"
	"gatehouse/internal/record/slate"
)

// RuntimeVariable names the folder in memory that systemd created for the service.
const RuntimeVariable = "RUNTIME_DIRECTORY"

// runtimeFolder returns that folder, "" where there is none.
func runtimeFolder() string {
	folder, _, _ := strings.Cut(os.Getenv(RuntimeVariable), ":") // the first of several, see systemd.exec(5)
	return folder
}

// resumeRevocations puts into effect what was revoked in an earlier run and is not stored yet.
func (g *Gateway) resumeRevocations(ctx context.Context) error {
	stored, err := g.db.Revoked(ctx)
	if err != nil {
		return err
	}
	held, content, err := slate.Open(g.cfg.Data, runtimeFolder(), string(g.id))
	if err != nil {
		g.log.Error("the file of revocations that are not stored is not as it should be", "error", err)
	}
	g.unreadable = errors.Is(err, slate.ErrDamaged)
	if err := g.changes.Resume(ctx, held, content, stored, g.db.Copied, g.reportRevocations); err != nil {
		g.log.Error("some revocations that were not stored cannot be read: revoke them again", "error", err)
		g.unreadable = true
	}
	if g.unreadable {
		g.reportRevocations(0, amend.OnDisk)
	}
	return nil
}

// reportRevocations raises the condition of revocations that the database does not have, and
// clears it when there are none, unless some could not be read: nobody knows when those were made
// again.
func (g *Gateway) reportRevocations(n int, at amend.Place) {
	switch {
	case n == 0 && g.unreadable:
		g.conditions.Report(health.Warning, health.RevocationsUnstored, "Revocations that were not stored cannot be read: another version wrote them, or a part of their file is damaged",
			"They may not be in effect. Revoke again what was revoked while the storage failed, before the gateway was started last; then this goes with its next start")
		return
	case n == 0:
		g.conditions.Clear(health.RevocationsUnstored)
		return
	}
	summary, then := "1 revocation is not stored", "It is in effect"
	if n > 1 {
		summary, then = fmt.Sprintf("%d revocations are not stored", n), "They are in effect"
	}
	switch at {
	case amend.OnDisk:
		then += ", also after a restart of the gateway or a power cut"
	case amend.InMemory:
		then += ", also after a restart of the gateway, but are in the memory of the machine only: a power cut loses them"
		if n == 1 {
			then = "It is in effect, also after a restart of the gateway, but is in the memory of the machine only: a power cut loses it"
		}
	default:
		then += " until the gateway is restarted: do not restart it"
	}
	if g.unreadable {
		then += "; others cannot be read: revoke again what was revoked before the last start"
	}
	g.conditions.Report(health.Warning, health.RevocationsUnstored, summary, then+"; see the finding of the storage")
}
