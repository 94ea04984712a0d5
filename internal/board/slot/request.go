package slot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/boottime"
	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Where the gateway leaves a request, in a folder of the service user.
const (
	requestFolder = "/run/gatehouse"
	requestName   = "update-request.json"
)

// Bounds of a request, in bytes.
const (
	maxRequest = 4 << 10
	maxURL     = 2 << 10
)

// Action is what the gateway asks for.
type Action string

// The actions.
const (
	Update   Action = "update"
	Rollback Action = "rollback"
	Withdraw Action = "withdraw" // of what waits for its moment
)

// Request is what the gateway asks root for. Root trusts nothing in it: the worst that it
// can cause is an update to a newer version that is signed.
type Request struct {
	ID     string         `json:"id"` // 1 to 64 letters, digits and "-"
	Action Action         `json:"action"`
	URL    string         `json:"url,omitempty"`    // https://…, of the update, or
	File   bool           `json:"file,omitempty"`   // it was uploaded
	SHA256 string         `json:"sha256,omitempty"` // of the update, 64 lower-case hex digits; "" where none was stated
	At     site.Timestamp `json:"at,omitzero"`      // when to restart; zero: at once
	Until  site.Timestamp `json:"until,omitzero"`   // the end of a window that At is in; zero: none
	Left   int64          `json:"left,omitempty"`   // when Ask left it, in seconds since the start of the board
}

// maxAge is how long, in seconds, a request may wait for root. The gateway no longer expects an older
// one to be carried out.
const maxAge = 600

// sinceStart returns how long ago the board was started, in seconds.
func (e Exchange) sinceStart() int64 {
	if e.uptime != nil {
		return e.uptime()
	}
	return int64(boottime.Now() / time.Second)
}

// The forms of an id and of a sum.
var (
	idForm  = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	sumForm = regexp.MustCompile(`^(?:[0-9a-f]{64})?$`)
)

// check refuses a request that cannot be right.
func (r Request) check() error {
	switch {
	case !idForm.MatchString(r.ID):
		return errors.New("it has no proper id")
	case !sumForm.MatchString(r.SHA256):
		return errors.New("its SHA-256 is not 64 lower-case hex digits")
	case (r.Action == Rollback || r.Action == Withdraw) && r.URL == "" && !r.File && r.SHA256 == "":
		return nil
	case r.Action != Update:
		return fmt.Errorf("its action is %q", r.Action)
	case r.File == (r.URL != ""):
		return errors.New("it needs either a URL or a file")
	case r.File:
		return nil
	}
	u, err := url.Parse(r.URL)
	if err != nil || len(r.URL) > maxURL || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return errors.New("its URL does not start with https:// and a host, or is too long")
	}
	return nil
}

// parseRequest returns a request that is well formed: one JSON object and no unknown
// field.
func parseRequest(text []byte) (r Request, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return Request{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Request{}, errors.New("something follows it")
	}
	if err := r.check(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// Asked reports whether a request waits to be taken, which root does within seconds unless it is busy.
func (e Exchange) Asked() bool {
	_, err := os.Lstat(e.path(filepath.Join(requestFolder, requestName)))
	return err == nil
}

// Ask leaves a request for root, in place of one that was not taken yet. For the gateway,
// not to be called concurrently.
// The error is Invalid for a request that root would refuse to read.
func (e Exchange) Ask(r Request) error {
	if err := r.check(); err != nil {
		return fault.Wrap(fault.Invalid, "The request for an update cannot be right", err)
	}
	r.Left = e.sinceStart()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.Write(e.path(filepath.Join(requestFolder, requestName)), append(text, '\n'), 0o600)
}

// TakeRequest returns the request that the gateway left and removes it, for root; false
// when there is none. What is not a well-formed request in an ordinary file of the
// service user, or was left more than ten minutes ago, is removed too, and the error is Invalid:
// r is the request then, if it can be read.
func (e Exchange) TakeRequest() (r Request, found bool, err error) {
	folder, err := os.OpenFile(e.path(requestFolder), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Request{}, false, nil
	}
	if err != nil {
		return Request{}, false, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	text, err := readRequest(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return Request{}, false, nil
	}
	if e := unix.Unlinkat(int(folder.Fd()), requestName, 0); e != nil && !errors.Is(e, unix.ENOENT) {
		return Request{}, false, errors.Join(err, fmt.Errorf("removing the request for an update: %w", e))
	}
	if err == nil {
		r, err = parseRequest(text)
	}
	if err != nil {
		return Request{}, false, fault.Wrap(fault.Invalid, "The request for an update was refused", err)
	}
	if r.Left > 0 && e.sinceStart()-r.Left > maxAge {
		return r, false, fault.New(fault.Invalid, "The request for an update waited for more than ten minutes: ask again")
	}
	return r, true, nil
}

// readRequest reads the file with the request, in a folder whose owner decides what is in it. It
// follows no link, does not wait for a pipe, and reads only what belongs to that owner.
func readRequest(folder *os.File) (text []byte, err error) {
	fd, err := unix.Openat(int(folder.Fd()), requestName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), requestName)
	defer func() { err = errors.Join(err, f.Close()) }()
	var file, above unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &file), unix.Fstat(int(folder.Fd()), &above)); err != nil {
		return nil, err
	}
	if file.Mode&unix.S_IFMT != unix.S_IFREG || file.Uid != above.Uid || file.Nlink != 1 || file.Size > maxRequest {
		return nil, fmt.Errorf("it is not an ordinary file of user %d with at most %d bytes", above.Uid, maxRequest)
	}
	return io.ReadAll(io.LimitReader(f, maxRequest))
}
