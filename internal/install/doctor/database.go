package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
)

// logLarge is how large the log beside the database grows only when something keeps
// it from being moved into the file.
const logLarge = 64 << 20

// checkDatabase looks at the data directory and into the database.
func checkDatabase(ctx context.Context, p *patient, s *sheet) {
	checkCopies(p, s)
	state, err := p.database()
	evidence := stateFacts(state)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.skip("looking at the whole database takes longer than "+databaseTime(p.Deep).String(), "sudo gatehouse doctor --deep")
		return
	case mayNot(err):
		s.skip("this user may not read the database", asRoot)
		return
	case fault.Is(err, fault.NotFound) && p.runs():
		s.fatal("The gateway runs, and its database is gone", "gatehouse backup FILE, before anything else; then gatehouse restore FILE", sentence(err))
		return
	case fault.Is(err, fault.NotFound):
		s.notice("There is no database yet: the gateway makes it at its first start", p.told("start"), "none at "+p.data(databaseFile))
		return
	case fault.Is(err, fault.Invalid):
		s.fatal("The database cannot be used", damageAdvice(p), append(evidence, sentence(err))...)
		return
	case err != nil:
		s.denied("the database", err)
		return
	}
	if state.Damage != "" {
		s.fatal("The database is damaged", damageAdvice(p), append(evidence, state.Damage)...)
	}
	checkSchema(p, s, state, evidence)
	if p.Deep {
		verifyJournal(ctx, p, s)
	}
	s.fine(fmt.Sprintf("It is sound: %s", size(state.Size)), evidence...)
}

func stateFacts(state sqlite.FileState) []string {
	facts := []string{fmt.Sprintf("%s, and %s in its log", size(state.Size), size(state.Log)), fmt.Sprintf("schema %d", state.Schema)}
	if state.Last > 0 {
		facts = append(facts, fmt.Sprintf("records %d to %d", state.First, state.Last))
	}
	return facts
}

// damageAdvice says how to get a sound database again.
func damageAdvice(p *patient) string {
	return "keep a copy of " + p.settings.Data + ", then put a backup in its place: gatehouse restore FILE"
}

func checkSchema(p *patient, s *sheet, state sqlite.FileState, evidence []string) {
	switch {
	case state.Schema > state.Known && p.runs() && p.status.Version != p.Version:
		s.notice(fmt.Sprintf("The database was not judged: this program is version %s, the gateway runs %s", p.Version, p.status.Version),
			fmt.Sprintf("examine it with the gateway's own program, which readlink /proc/%d/exe names", p.process), evidence...)
	case state.Schema > state.Known:
		s.fatal("The database is of a newer version of gatehouse", "install that version again, or go back with: gatehouse restore "+
			fmt.Sprintf("%s.schema%d", p.data(databaseFile), state.Known), append(evidence, fmt.Sprintf("this version knows schema %d", state.Known))...)
	case state.Schema < state.Known && state.Schema > 0:
		s.notice("The database is of an older version: the next start brings it forward", p.told("restart"),
			append(evidence, fmt.Sprintf("this version makes it schema %d", state.Known))...)
	}
	if state.Log > logLarge {
		s.warn("The log of the database has grown large: something keeps it open", p.told("restart"), evidence...)
	}
}

// verifyJournal walks the whole journal; a gateway that runs does it itself.
func verifyJournal(ctx context.Context, p *patient, s *sheet) {
	var broken uint64
	var why string
	var err error
	if p.runs() {
		v, failed := p.gateway.VerifyJournal(ctx)
		broken, why, err = v.Broken, v.Why, failed
	} else {
		v, failed := p.Journal(ctx, p.data(databaseFile))
		broken, why, err = v.Broken, v.Why, failed
	}
	switch {
	case err != nil:
		s.denied("the whole journal", err)
	case broken != 0:
		s.fatal("Someone changed or removed records of the journal",
			"keep a copy of the database as evidence, and find out who could write to it", fmt.Sprintf("record %d: %s", broken, why))
	}
}

// checkCopies names what upgrades, restores and damage have left.
func checkCopies(p *patient, s *sheet) {
	var found []string
	var sum int64
	for _, name := range p.Machine.Entries(p.settings.Data) {
		path := p.data(name)
		if !strings.HasPrefix(name, databaseFile+".schema") && !strings.HasPrefix(name, databaseFile+".damaged-") && !strings.HasPrefix(name, "before-restore-") {
			continue // the copy that a start from a damaged database needs, among others
		}
		bytes := p.weight(path)
		sum += bytes
		found = append(found, fmt.Sprintf("%s (%s)", path, size(bytes)))
	}
	if len(found) > 0 {
		s.notice("Old copies of the data take "+size(sum), "rm -r what is no longer needed, once the gateway has run well for some days", found...)
	}
}

// weight gives the bytes of a file, or of all in a folder.
func (p *patient) weight(path string) int64 {
	var sum int64
	_ = fs.WalkDir(p.Machine.Files, strings.TrimPrefix(filepath.Clean(path), "/"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read counts nothing
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
