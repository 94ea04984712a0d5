package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Terms say how to put a restored gateway in place.
type Terms struct {
	KeepSessions  bool   // else every login ends
	Configuration string // the id of the [Placement] that goes with it; "": it stays as it is
	By            string // who restores, for the journal
	Now           time.Time
}

// Restored says what a restore did.
type Restored struct {
	Ended int    // sessions
	Kept  string // the folder with what was there; "" where there was nothing
}

// ErrBegun is wrapped by an error of [Staged.Commit] after which things are not as they
// were.
var ErrBegun = errors.New("the restore has begun")

// Commit puts the restored gateway in place and keeps what was there. Until it begins to
// move files, an error leaves everything as it was; from then on, power cut or not, the
// restored gateway is what starts next.
func (s *Staged) Commit(ctx context.Context, t Terms) (Restored, error) {
	return s.commit(ctx, t, swap{data: s.options.Data})
}

func (s *Staged) commit(ctx context.Context, t Terms, sw swap) (r Restored, err error) {
	record := site.Record{Kind: site.KindRestored, Facts: site.Facts{Origin: site.Admin, By: t.By, Detail: s.story(t.KeepSessions)}}
	if r.Ended, err = s.options.Database.Renew(ctx, s.path(underData, database), t.KeepSessions, record); err != nil {
		return r, err
	}
	m := marker{Phase: movingOut, Staged: s.folder, Whole: s.Whole, Configuration: t.Configuration}
	if m.Kept, err = s.free(sw, t.Now); err != nil {
		return r, err
	}
	if err := settle(s.path()); err != nil {
		return r, fmt.Errorf("writing the restored files: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if err := sw.write(m); err != nil {
		return r, fmt.Errorf("beginning to replace files: %w", err)
	}
	return r.finish(sw, m)
}

// finish does what [Complete] does after a power cut.
func (r Restored) finish(sw swap, m marker) (Restored, error) {
	if _, err := sw.complete(); err != nil {
		return r, begun(err)
	}
	if m.Kept != "" {
		r.Kept = sw.path(m.Kept)
	}
	return r, nil
}

// begun wraps an error that occurs when the restore cannot be undone.
func begun(err error) error {
	return fault.Wrap(fault.Unavailable, "The restore has begun and could not be finished ("+err.Error()+
		"): correct that, then start the gateway, which completes it, or restore again", errors.Join(ErrBegun, err))
}

// Forget ends a restore whose configuration is in place.
func (s *Staged) Forget() error { return Forget(s.options.Data) }

// story is what the journal says of the restore.
func (s *Staged) story(keepSessions bool) string {
	text := "from a copy of the database whose newest record is of " + s.Holds.Newest.String()
	if s.Whole {
		text = fmt.Sprintf("from the backup of %s, made by version %s", s.Created, s.Version)
	}
	if !keepSessions {
		text += "; sessions were ended"
	}
	return text
}

// free gives a name for what is kept that is not taken; "" where there is nothing to keep.
func (s *Staged) free(sw swap, now time.Time) (string, error) {
	old, err := sw.old(s.Whole)
	if err != nil || len(old) == 0 {
		return "", err
	}
	for i := range 100 {
		name := keptPrefix + Stamp(now)
		if i > 0 {
			name += fmt.Sprintf("-%d", i+1)
		}
		found, err := present(sw.data, name)
		if err != nil || len(found) == 0 {
			return name, err
		}
	}
	return "", errors.New("keeping what is there: too many restores within a second")
}
