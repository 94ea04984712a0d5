package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatehouse/internal/health"
	"gatehouse/internal/record/slate"
)

// runtimeFolder returns the folder in memory that systemd created for the service, "" where
// there is none.
func runtimeFolder() string {
	folder, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":") // the first of several, see systemd.exec(5)
	return folder
}

// resumeRevocations puts into effect what was revoked in an earlier run and is not stored yet.
// The slate beside the database has a name of its family, so that a restore sets it aside with
// the database.
func (g *Gateway) resumeRevocations(ctx context.Context) error {
	stored, err := g.db.Revoked(ctx)
	if err != nil {
		return err
	}
	memory := ""
	if folder := runtimeFolder(); folder != "" {
		memory = filepath.Join(folder, "revocations")
	}
	held, content, err := slate.Open(filepath.Join(g.cfg.Data, "gatehouse.db.revocations"), memory)
	if err != nil {
		g.log.Error("revocations that the database does not take are held in memory alone", "error", err)
	}
	g.unreadable = errors.Is(err, slate.ErrTorn)
	if err := g.changes.Resume(held, content, stored, g.reportRevocations); err != nil {
		g.log.Error("some revocations that were not stored cannot be read: revoke them again", "error", err)
		g.unreadable = true
	}
	if g.unreadable {
		g.reportRevocations(0, true)
	}
	return nil
}

// reportRevocations raises the condition of revocations that the database does not have, and
// clears it when there are none, unless some could not be read: nobody knows when those were made
// again.
func (g *Gateway) reportRevocations(n int, held bool) {
	switch {
	case n == 0 && g.unreadable:
		g.conditions.Report(health.Warning, health.RevocationsUnstored, "Revocations that were not stored cannot be read: another version wrote them, or the file is damaged",
			"They are not in effect. Revoke again what was revoked while the storage failed, before the gateway was started last; then this goes with its next start")
		return
	case n == 0:
		g.conditions.Clear(health.RevocationsUnstored)
		return
	}
	summary, then := "1 revocation is not stored", "It is in effect"
	if n > 1 {
		summary, then = fmt.Sprintf("%d revocations are not stored", n), "They are in effect"
	}
	if held {
		then += ", also after a restart of the gateway"
	} else {
		then += " until the gateway is restarted: do not restart it"
	}
	g.conditions.Report(health.Warning, health.RevocationsUnstored, summary, then+"; see the finding of the storage")
}
