package doctor

import (
	"context"
	"errors"
	"fmt"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
)

// checkDatabase checks the pages of the database.
func checkDatabase(ctx context.Context, g *subject, s *sheet) {
	state, err := g.examineDatabase(ctx)
	evidence := stateFacts(state)
	repair := "keep a copy of " + g.settings.Data + ", then put a backup in its place: gatehouse restore FILE"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.skip("checking the whole database takes too long", "gatehouse journal verify")
		return
	case mayNot(err):
		s.skip("this user may not read the database", asRoot)
		return
	case fault.Is(err, fault.NotFound) && !g.runs():
		s.notice("There is no database yet: the gateway creates it at its first start", g.command("start"), "none at "+g.data(databaseFile))
		return
	case fault.Is(err, fault.NotFound):
		s.fatal("The gateway runs, but its database file is gone", "gatehouse backup FILE, before anything else; then gatehouse restore FILE", sentence(err))
		return
	case fault.Is(err, fault.Invalid):
		s.fatal("The database cannot be used", repair, append(evidence, sentence(err))...)
		return
	case err != nil:
		s.unread("the database", err)
		return
	}
	if state.Damage != "" {
		s.fatal("The database is damaged", repair, append(evidence, state.Damage)...)
	}
	s.fine(fmt.Sprintf("It is sound: %s", machine.Size(state.Size)), evidence...)
}

// examineDatabase asks a running gateway, because nobody else can open its database.
func (g *subject) examineDatabase(ctx context.Context) (sqlite.FileState, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-askLimit))
		defer cancel()
	}
	if g.runs() {
		state, err := g.gateway.Database(ctx)
		return sqlite.FileState(state), err
	}
	return g.Database(ctx, g.data(databaseFile))
}

func stateFacts(state sqlite.FileState) []string {
	facts := []string{fmt.Sprintf("%s, and %s in its log", machine.Size(state.Size), machine.Size(state.Log)), fmt.Sprintf("schema %d", state.Schema)}
	if state.Last > 0 {
		facts = append(facts, fmt.Sprintf("records %d to %d", state.First, state.Last))
	}
	return facts
}
