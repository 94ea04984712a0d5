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
	g.db.OnCopied(func(err error) { g.changes.Copied(context.WithoutCancel(ctx), err) })
	if err := g.changes.Resume(ctx, held, content, stored, g.db, g.reportRevocations); err != nil {
		g.log.Error("some revocations that were not stored cannot be read: revoke them again", "error", err)
		g.unreadable = true
	}
	if g.unreadable {
		g.reportRevocations(amend.Held{})
	}
	return nil
}

// reportRevocations raises the condition of revocations that the database or its copy does not have, and
// clears it when there are none, unless some could not be read: nobody knows when those were made
// again.
func (g *Gateway) reportRevocations(h amend.Held) {
	switch {
	case h.Unstored+h.Uncopied > 0:
		g.conditions.Report(health.Warning, health.RevocationsUnstored, unstored(h), g.advice(h))
	case g.unreadable:
		g.conditions.Report(health.Warning, health.RevocationsUnstored, "Revocations that were not stored cannot be read: another version wrote them, or a part of their file is damaged",
			"They may not be in effect. Revoke again what was revoked while the storage failed, before the gateway was started last; then this goes with its next start")
	default:
		g.conditions.Clear(health.RevocationsUnstored)
	}
}

// unstored is the summary of the condition.
func unstored(h amend.Held) string {
	of := func(n int, what string) string {
		if n == 1 {
			return "1 revocation is " + what
		}
		return fmt.Sprintf("%d revocations are %s", n, what)
	}
	switch {
	case h.Uncopied == 0:
		return of(h.Unstored, "not stored")
	case h.Unstored == 0:
		return of(h.Uncopied, "in the database alone")
	}
	return of(h.Unstored, "not stored") + ", and " + of(h.Uncopied, "in the database alone")
}

// advice says what would lose them, and what to do.
func (g *Gateway) advice(h amend.Held) string {
	var parts []string
	if h.Unstored > 0 {
		parts = append(parts, lasting(h))
	}
	if h.Unheld > 0 {
		parts = append(parts, fmt.Sprintf("there is no room to hold %d of them over a restart of the gateway: free the disk before it is restarted", h.Unheld))
	}
	if h.Uncopied > 0 {
		parts = append(parts, fmt.Sprintf("damage of the database would undo %d, which its copy does not have: free the disk of the copy (data_copy), which is then written, or take a backup with gatehouse backup", h.Uncopied))
	}
	if g.unreadable {
		parts = append(parts, "others cannot be read: revoke again what was revoked before the last start")
	}
	text := strings.Join(append(parts, "see the finding of the storage"), "; ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// lasting says for how long revocations that are not stored are in effect.
func lasting(h amend.Held) string {
	they, are, them := "they are", "are", "them"
	if h.Unstored == 1 {
		they, are, them = "it is", "is", "it"
	}
	switch h.At {
	case amend.OnDisk:
		return they + " in effect, also after a restart of the gateway or a power cut"
	case amend.InMemory:
		return they + " in effect, also after a restart of the gateway, but " + are + " in the memory of the machine only: a power cut loses " + them
	default:
		return they + " in effect until the gateway is restarted: do not restart it"
	}
}
