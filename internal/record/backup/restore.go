package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/slate"
	"gatehouse/internal/site"
)

// Order is what to restore, where to, and how.
type Order struct {
	Data          string    `json:"-"`             // the data directory, whose lock the caller holds
	Runtime       string    `json:"-"`             // the runtime directory of its gateway
	Medium        string    `json:"medium"`        // the name of the file, for messages
	AcceptJournal bool      `json:"acceptJournal"` // also a journal of which a record was changed
	KeepSessions  bool      `json:"keepSessions"`  // else every login ends
	By            string    `json:"by"`            // the user who restores, for the journal
	Now           time.Time `json:"now"`
}

// Restored is what was restored, and what that did.
type Restored struct {
	Version string         `json:"version,omitempty"` // of the gatehouse that made the backup; "" of a plain copy
	Created site.Timestamp `json:"created"`           // null of a plain copy
	Holds   site.Inventory `json:"holds"`
	Broken  uint64         `json:"broken,omitempty"` // seq of the first record that someone changed; 0: none
	Revoked int            `json:"revocations"`      // those that the database in it did not have yet
	Ended   int            `json:"sessionsEnded"`
	Kept    string         `json:"kept,omitempty"` // the folder with what was there; "" where there was nothing
	// Certificates reports whether the gateway's own certificates were restored. If not, those
	// that were there stay, and without any the gateway makes new ones.
	Certificates bool `json:"certificates"`
}

// ErrBegun is wrapped by an error of [Restore] or [Placement.Write] after which the gateway
// is no longer as it was.
var ErrBegun = errors.New("the restore has begun")

// confirmation follows the archive of a restore that is to be carried out.
const confirmation = "every byte was authenticated\n"

// Confirm lets the [Restore] that reads from w proceed, after [Medium.Pass] has succeeded.
func Confirm(w io.Writer) error {
	_, err := io.WriteString(w, confirmation)
	return err
}

// Restore puts the gateway that data holds in place and keeps what was there. It unpacks
// the archive in a folder of its own within the data directory and verifies all of it;
// then data must be confirmed. Until it begins to move files, an error leaves everything
// as it was; from then on, power cut or not, the restored gateway is what starts next.
// Errors: Conflict for a newer version, Invalid for damage, Unavailable for the disk.
func Restore(ctx context.Context, o Order, db Database, data io.Reader) (r Restored, err error) {
	folder, err := os.MkdirTemp(o.Data, stagedPrefix) // with mode 0700
	if err != nil {
		return r, fault.Wrap(fault.Unavailable, "The data directory "+o.Data+" cannot be written to ("+reason(err)+"): run this as root or as the user of the gateway", err)
	}
	s := staged{Order: o, db: db, folder: folder}
	err = worded(fault.Unavailable, "The backup cannot be unpacked into the data directory: check free space with df and the disk with dmesg", s.unpack(data))
	if err == nil {
		r, err = s.verify(ctx)
	}
	if err == nil {
		err = confirmed(data)
	}
	var unstored []site.Amendment
	if err == nil {
		unstored, err = s.unstored(r.Holds.Gateway)
	}
	if err == nil {
		record := site.Record{Kind: site.KindRestored, Facts: site.Facts{Origin: site.Admin, By: o.By, Detail: s.story(r)}}
		r.Revoked, r.Ended, err = db.Renew(ctx, s.path(database), unstored, o.KeepSessions, record)
	}
	if err == nil {
		r.Kept, err = s.commit(ctx)
	}
	return r, errors.Join(err, os.RemoveAll(folder)) // it has another name when it is in place
}

// confirmed returns an error unless the confirmation follows the archive.
func confirmed(data io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(data, int64(len(confirmation))+1))
	if err == nil && string(text) != confirmation {
		err = fault.New(fault.Invalid, "The backup was not read to its end: restore again")
	}
	return err
}

// staged is what a restore has unpacked into a folder. Nothing else has been touched.
type staged struct {
	Order
	Manifest // of a plain copy: without a version
	db       Database
	folder   string
}

// path returns the path of a part of the data.
func (s *staged) path(name string) string { return filepath.Join(s.folder, underData, name) }

// unpack writes every file of the data into the folder. The sender of the archive checks
// it too, and reports first what is wrong with it.
func (s *staged) unpack(data io.Reader) error {
	in, err := openArchive(s.Medium, data)
	if err != nil {
		return err
	}
	s.Manifest = in.Manifest
	root, err := os.OpenRoot(s.folder)
	if err != nil {
		return err
	}
	err = in.each(func(e Entry, content io.Reader) error { return write(root, e, content) })
	return errors.Join(err, root.Close())
}

// write writes one file of the data; the configuration is not for the data directory, and
// the key of access tokens is left out.
func write(root *os.Root, e Entry, content io.Reader) error {
	if strings.HasPrefix(e.Name, underConfig) || e.Name == underData+tokenKey {
		_, err := io.Copy(io.Discard, content)
		return err
	}
	name := filepath.FromSlash(e.Name)
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// verify checks the database that was unpacked.
func (s *staged) verify(ctx context.Context) (r Restored, err error) {
	path, name := s.path(database), s.Medium
	if s.Version != "" {
		name = "The database in " + s.Medium
	}
	holds, journal, err := s.db.Audit(ctx, path, name)
	if err != nil {
		return r, err
	}
	if s.Holds.Head == "" { // a former version's manifest
		s.Holds.Head = holds.Head
	}
	if s.Version != "" && holds != s.Holds {
		return r, fault.New(fault.Invalid, name+" is not the one that its manifest speaks of: use another backup")
	}
	if journal.Broken != 0 && !s.AcceptJournal {
		return r, fault.New(fault.Invalid, fmt.Sprintf("The journal in %s is broken at record %d (%s): use another backup, or take it as it is with --accept-journal",
			s.Medium, journal.Broken, journal.Why))
	}
	return Restored{
		Version: s.Version, Created: s.Created, Holds: holds, Broken: journal.Broken, Certificates: isThere(s.path(certificates)),
	}, nil
}

// unstored returns the revocations that the restored database may not have: those of the backup, and
// where the gateway that is replaced is the same one, those that wait there.
func (s *staged) unstored(gateway site.GatewayID) ([]site.Amendment, error) {
	path := s.path(revocations)
	content, err := os.ReadFile(path) //nolint:gosec // what was unpacked
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := amend.Decode(content, 0); err != nil {
		return nil, fault.Wrap(fault.Conflict, s.Medium+" holds revocations that this version cannot read: install gatehouse "+s.Version+" or newer first", err)
	}
	present, _ := slate.Read(s.Data, s.Runtime, string(gateway)) // what is damaged is set aside with the rest
	all, _ := amend.Decode(append(content, present...), 0)       // a former version leaves what a later one has written
	return all, nil
}

// story returns the detail of the journal's record.
func (s *staged) story(r Restored) string {
	text := "from a copy of the database whose newest record is of " + r.Holds.Newest.String()
	if s.Version != "" {
		text = fmt.Sprintf("from the backup of %s, made by version %s", s.Created, s.Version)
	}
	if !s.KeepSessions {
		text += "; sessions were ended"
	}
	return text
}

// commit puts the folder in place and returns where the former data is kept.
func (s *staged) commit(ctx context.Context) (kept string, err error) {
	stamp := Stamp(s.Now)
	for isThere(filepath.Join(s.Data, keptPrefix+stamp)) {
		stamp += "-2" // another restore within the same second
	}
	err = filepath.WalkDir(s.folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.Sync(path)
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", err
	}
	ready := filepath.Join(s.Data, readyPrefix+stamp)
	err = durable.Rename(s.folder, ready)
	if err != nil && !isThere(ready) {
		return "", err
	}
	if err == nil {
		err = complete(s.Data)
	}
	if err != nil { // the next start sees it
		return "", fault.Wrap(fault.Unavailable, "The restore has begun and could not be finished ("+err.Error()+
			"): correct that, then start the gateway, which completes it, or restore again", errors.Join(ErrBegun, err))
	}
	if kept = filepath.Join(s.Data, keptPrefix+stamp); !isThere(kept) {
		kept = ""
	}
	return kept, nil
}

// isThere reports whether something is at a path.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Stamp returns the suffix of the names of what is kept, from the time of the restore.
func Stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }
