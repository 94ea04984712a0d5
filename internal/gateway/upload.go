package gateway

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
)

// uploadSpare is what stays free on the disk, in bytes: the journal needs it more.
const uploadSpare = 64 << 20

// uploads is the folder of the one update that a browser has uploaded, for root to
// install. Safe for concurrent use, but for Store.
type uploads struct{ folder string }

func newUploads(e slot.Exchange) uploads { return uploads{filepath.Join(e.Data(), slot.UploadFolder)} }

func (u uploads) path() string { return filepath.Join(u.folder, slot.UploadName) }

// unfinished is the path of an upload that is not whole.
func (u uploads) unfinished() string { return u.path() + ".new" }

// Store writes an upload; size is what the client announced, or -1. It replaces one that
// was there when it is whole and on the disk; after an error it leaves nothing. Errors are
// those of content, or Unavailable.
func (u uploads) Store(content io.Reader, size int64) (err error) {
	if err := u.clear(u.unfinished()); err != nil {
		return errUpload(err)
	}
	if err := os.MkdirAll(u.folder, 0o700); err != nil {
		return errUpload(err)
	}
	if err := u.checkRoom(max(size, 0)); err != nil {
		return err
	}
	f, err := os.OpenFile(u.unfinished(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return errUpload(err)
	}
	if err = u.fill(f, content); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err := durable.Replace(f, u.path()); err != nil {
		return errUpload(err)
	}
	return nil
}

// fill writes a file piece by piece, each to the disk itself.
func (u uploads) fill(f *os.File, content io.Reader) error {
	buffer := make([]byte, durable.FlushSize)
	for written := int64(0); ; {
		n, err := io.ReadFull(content, buffer)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if _, err := f.Write(buffer[:n]); err != nil {
			return errUpload(err)
		}
		if err := durable.Flush(f, written, int64(n)); err != nil {
			return errUpload(err)
		}
		written += int64(n)
		if last {
			return nil
		}
		if err := u.checkRoom(0); err != nil {
			return err
		}
	}
}

// checkRoom refuses to write so many bytes where too little would be free then.
func (u uploads) checkRoom(needed int64) error {
	room, err := durable.RoomAt(u.folder)
	if err != nil {
		return errUpload(err)
	}
	if room.Free-needed < uploadSpare {
		return fault.New(fault.Unavailable, fmt.Sprintf(
			"There is no room for the update: %d MB are free, and %d MB of them must stay so; install it from a USB stick, with gatehouse update FILE",
			room.Free/1e6, int64(uploadSpare)/1e6))
	}
	return nil
}

// Discard removes an upload, for root to find none.
func (u uploads) Discard() { _ = u.clear(u.path()) }

// clean removes what a former run has left.
func (u uploads) clean() error { return errors.Join(u.clear(u.unfinished()), u.clear(u.path())) }

func (uploads) clear(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func errUpload(err error) error {
	return fault.Wrap(fault.Unavailable, "The upload cannot be written: run gatehouse doctor", err)
}
