package update

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
)

// Source is where an update comes from: one of the three is set.
type Source struct {
	Path   string
	URL    string // http or https
	Upload bool   // the file that the gateway has taken from a browser
}

// ParseSource returns the source that an administrator names: a URL or a path.
func ParseSource(text string) (Source, error) {
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return Source{Path: text}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Source{}, fault.New(fault.Invalid, "An update comes from a file or from an address that begins with https:// or http:// and a host, not with "+cleaned(scheme)+"://")
	}
	return Source{URL: text}, nil
}

// cleaned returns a word that cannot hold a password.
func cleaned(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }) {
		return "…"
	}
	return word
}

// medium is an update file that is read.
type medium struct {
	*os.File
	size    int64
	fetched func() error // removes what was downloaded; nil where it is someone's file
}

// obtain returns the update file of an order: fetched first, where it is elsewhere.
func (u *Updater) obtain(ctx context.Context, o Order, keys api.Keyring) (*medium, error) {
	switch {
	case o.From.URL != "":
		return u.fetch(ctx, o.From.URL, keys)
	case o.From.Upload:
		return u.openUpload()
	default:
		return openFile(os.OpenFile(o.From.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)) // a pipe without a writer does not hang
	}
}

// openFile makes a medium of a file that was opened.
func openFile(f *os.File, err error) (*medium, error) {
	if cause, is := errors.AsType[*fs.PathError](err); is {
		err = cause.Err // without the path: a mistyped address may hold a password
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "The update cannot be read: "+err.Error(), err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.New(fault.Invalid, "The update is no file: name a file whose name ends in .update")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &medium{File: f, size: info.Size()}, nil
}

// openUpload opens the upload. All below the data is decided by the gateway's user, so no
// link is followed there.
func (u *Updater) openUpload() (*medium, error) {
	folder, err := u.openUploads()
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	fd, err := unix.Openat2(int(folder.Fd()), slot.UploadName, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, errUpload(err)
	}
	return openFile(os.NewFile(uintptr(fd), slot.UploadName), nil)
}

// openUploads opens the folder of the upload.
func (u *Updater) openUploads() (*os.File, error) {
	data, err := os.Open(u.Exchange.Data())
	if err != nil {
		return nil, errUpload(err)
	}
	defer func() { _ = data.Close() }()
	fd, err := unix.Openat2(int(data.Fd()), slot.UploadFolder, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, errUpload(err)
	}
	return os.NewFile(uintptr(fd), slot.UploadFolder), nil
}

func errUpload(err error) error {
	return fault.Wrap(fault.Invalid, "The update that was uploaded is not there: upload it again", err)
}

// removeUpload removes an upload, whatever became of it: a new request has a new one.
func (u *Updater) removeUpload() {
	folder, err := u.openUploads()
	if err == nil {
		err = errors.Join(unix.Unlinkat(int(folder.Fd()), slot.UploadName, 0), folder.Close())
	}
	if err != nil {
		u.Log.Warn("the upload of an update was not removed", "err", err)
	}
}

// compare compares the SHA-256 of the whole file.
func (m *medium) compare(ctx context.Context, want updatefile.Sum, step func(int64)) error {
	hash, buffer := sha256.New(), make([]byte, blockSize)
	whole := io.NewSectionReader(m.File, 0, m.size)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := whole.Read(buffer)
		_, _ = hash.Write(buffer[:n])
		step(int64(n))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fault.Wrap(fault.Unavailable, "The update cannot be read: is the medium still there? Try again", err)
		}
	}
	if updatefile.Sum(hash.Sum(nil)) != want {
		return fault.New(fault.Invalid, "The update has another SHA-256 than the one that was stated: download it again, and compare the SHA-256 with that of the release")
	}
	return nil
}

// spoilt removes a download that was refused as damaged or foreign, so that the next one
// begins anew.
func (m *medium) spoilt(err error) error {
	if m.fetched == nil || !fault.Is(err, fault.Invalid) {
		return nil
	}
	return m.fetched()
}
