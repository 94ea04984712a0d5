package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Terms are how to put a restored gateway in place.
type Terms struct {
	KeepSessions  bool   // else every login ends
	Configuration string // the id of the [Placement] that goes with it; "": it stays as it is
	By            string // the user who restores, for the journal
	Now           time.Time
}

// Restored is what a restore did.
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
	stamp := Stamp(t.Now)
	for isThere(sw.path(keptPrefix + stamp)) {
		stamp += "-2" // another restore within the same second
	}
	if t.Configuration != "" {
		if err := os.WriteFile(s.path(waitingName), []byte(t.Configuration), 0o600); err != nil {
			return r, fmt.Errorf("noting the restore: %w", err)
		}
	}
	if err := settle(s.path()); err != nil {
		return r, fmt.Errorf("writing the restored files: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if err := sw.supersede(); err != nil {
		return r, fmt.Errorf("ending the restore before this one: %w", err)
	}
	if err := sw.begin(s.folder, stamp); err != nil && isThere(sw.path(readyPrefix+stamp)) {
		return r, begun(err) // it may be on the disk, and the next start sees it
	} else if err != nil {
		return r, fmt.Errorf("beginning to replace files: %w", err)
	}
	if _, err := sw.complete(); err != nil {
		return r, begun(err)
	}
	if kept := sw.path(keptPrefix + stamp); isThere(kept) {
		r.Kept = kept
	}
	return r, nil
}

// settle flushes everything under root to the disk.
func settle(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.Sync(path)
	})
}

// begun wraps an error that occurs when the restore cannot be undone.
func begun(err error) error {
	return fault.Wrap(fault.Unavailable, "The restore has begun and could not be finished ("+err.Error()+
		"): correct that, then start the gateway, which completes it, or restore again", errors.Join(ErrBegun, err))
}

// Forget ends a restore whose configuration is in place.
func (s *Staged) Forget() error { return Forget(s.options.Data) }

// story returns the detail of the journal's record.
func (s *Staged) story(keepSessions bool) string {
	text := "from a copy of the database whose newest record is of " + s.Holds.Newest.String()
	if s.whole() {
		text = fmt.Sprintf("from the backup of %s, made by version %s", s.Created, s.Version)
	}
	if !keepSessions {
		text += "; sessions were ended"
	}
	return text
}

// isThere reports whether something is at a path.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
