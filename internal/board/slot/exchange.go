package slot

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// statusFile is what root says about updates, in a folder of root's.
const statusFile = "/run/gatehouse-update/status.json"

// UploadFolder and UploadName are where an update that was uploaded is, below [Exchange.Data].
const (
	UploadFolder = "update"
	UploadName   = "upload"
)

// Exchange is the files by which the gateway asks root for updates and reads how
// they go. The zero value is that of the system; Root is a folder instead, for tests.
type Exchange struct {
	Root string

	uptime func() int64 // in seconds; nil is that of the board
}

func (e Exchange) path(path string) string { return e.Root + path }

// Data returns the folder of the service user on the disk. It does not follow the
// configuration, which may keep the data elsewhere: root and the gateway have to meet.
func (e Exchange) Data() string { return e.path("/var/lib/gatehouse") }

// WriteStatus replaces the status that everyone may read. For root.
func (e Exchange) WriteStatus(s site.UpdateStatus) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := e.path(statusFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everyone
		return err
	}
	return durable.Write(path, append(text, '\n'), 0o644)
}

// ReadStatus returns the status that root wrote. The error is NotFound where there is
// none: on systems that were not started from an image of ours.
func (e Exchange) ReadStatus() (s site.UpdateStatus, err error) {
	text, err := readBounded(e.path(statusFile), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fault.Wrap(fault.NotFound, "This system has no slots for updates", err)
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}
