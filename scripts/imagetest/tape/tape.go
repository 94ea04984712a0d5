// Package tape is the disks of an emulated machine as a memory card is them: whatever
// was not flushed may be lost at a power cut, wholly or in part. It can also record
// every write and every flush in their order, and then be the disks after a power cut
// at any moment of the recording. Network block devices serve them (nbd.go).
//
// A disk is a file; a write goes to it at once, and what stood there before is kept
// until the next flush, so that a power cut can undo it. A flash memory (Config.Durable)
// loses nothing that was written.
package tape

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

// Sector is what is written wholly or not at all, in bytes.
const Sector = 512

// Config is one disk.
type Config struct {
	File    string // the disk, whose size is a multiple of Sector
	Socket  string // where it is served
	Durable bool   // as flash memory: nothing waits for a flush
	Lies    bool   // the control: it says that it has flushed and has not
}

// Write is one write to a disk, or a flush.
type Write struct {
	Disk   int
	Offset int64 // in bytes
	Length int64 // in bytes; 0 is a flush
	At     int64 // of its data in the recording; -1: zeros
}

// Flush reports whether it is no write, but makes the ones before it durable.
func (w Write) Flush() bool { return w.Length == 0 }

// Tape is the disks of one machine while it is on, and what was recorded of them. It may
// be used concurrently.
type Tape struct {
	disks     []*disk
	listeners []net.Listener
	serving   sync.WaitGroup

	mu     sync.Mutex // guards what follows, and the files of the disks
	writes []Write
	data   *os.File // what was written, one after the other; nil: nothing is recorded
	end    int64    // of data
	off    bool     // the power is off: nothing is written any more
	conns  []net.Conn
}

// disk is one disk; tape.mu guards it.
type disk struct {
	Config
	file    *os.File
	size    int64
	pending []undo // writes that were not flushed
}

// undo is what stood where something was written.
type undo struct {
	offset int64
	before []byte
}

// Start serves disks. If record is not "", every write is recorded in that file.
func Start(record string, disks ...Config) (*Tape, error) {
	t := &Tape{}
	err := t.open(record, disks)
	if err != nil {
		t.close()
		return nil, err
	}
	for i, l := range t.listeners {
		t.serving.Go(func() { t.accept(l, i) })
	}
	return t, nil
}

func (t *Tape) open(record string, disks []Config) (err error) {
	if record != "" {
		if t.data, err = os.Create(record); err != nil {
			return err
		}
	}
	for _, c := range disks {
		file, err := os.OpenFile(c.File, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		d := &disk{Config: c, file: file}
		t.disks = append(t.disks, d)
		if d.size, err = file.Seek(0, io.SeekEnd); err != nil {
			return err
		}
		if d.size%Sector != 0 {
			return fmt.Errorf("%s has %d bytes, which are not whole sectors", c.File, d.size)
		}
		l, err := net.Listen("unix", c.Socket)
		if err != nil {
			return err
		}
		t.listeners = append(t.listeners, l)
	}
	return nil
}

func (t *Tape) close() {
	for _, l := range t.listeners {
		_ = l.Close()
	}
	t.mu.Lock()
	for _, c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.serving.Wait()
	for _, d := range t.disks {
		_ = d.file.Close()
	}
}

// Now returns how many writes and flushes were recorded so far.
func (t *Tape) Now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.writes)
}

// Stop ends a machine that has switched itself off: nothing is lost.
func (t *Tape) Stop() { t.close() }

// Cut cuts the power: of the writes that were not flushed, some are lost, some sectors
// of others. With everything, all of them are.
func (t *Tape) Cut(everything bool) error {
	t.mu.Lock()
	t.off = true
	var failed error
	for _, d := range t.disks {
		for i := len(d.pending) - 1; i >= 0; i-- {
			failed = errors.Join(failed, d.lose(d.pending[i], everything))
		}
		d.pending = nil
	}
	t.mu.Unlock()
	t.close()
	return failed
}

// lose undoes a write, or the sectors of it that chance has chosen.
func (d *disk) lose(u undo, everything bool) error {
	keep := Keep(rand.Uint64())
	for at := int64(0); at < int64(len(u.before)); at += Sector {
		if everything || !keep.sector(u.offset+at) {
			if _, err := d.file.WriteAt(u.before[at:at+Sector], u.offset+at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tape) read(i int, p []byte, offset int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.disks[i].file.ReadAt(p, offset)
	return err
}

// write writes p, or with p nil so many zeros.
func (t *Tape) write(i int, p []byte, offset, length int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.disks[i]
	if t.off {
		return errOff
	}
	if offset%Sector != 0 || length%Sector != 0 || offset+length > d.size {
		return fmt.Errorf("a write of %d bytes at %d", length, offset)
	}
	if !d.Durable {
		u := undo{offset, make([]byte, length)}
		if _, err := d.file.ReadAt(u.before, offset); err != nil {
			return err
		}
		d.pending = append(d.pending, u)
	}
	if err := t.record(Write{i, offset, length, t.end}, p); err != nil {
		return err
	}
	if p == nil {
		p = make([]byte, length)
	}
	_, err := d.file.WriteAt(p, offset)
	return err
}

var errOff = errors.New("the power is off")

// record appends to the recording.
func (t *Tape) record(w Write, p []byte) error {
	if t.data == nil {
		return nil
	}
	if p == nil {
		w.At = -1
	}
	t.writes = append(t.writes, w)
	t.end += int64(len(p))
	_, err := t.data.Write(p)
	return err
}

func (t *Tape) flush(i int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.off {
		return errOff
	}
	if !t.disks[i].Lies {
		t.disks[i].pending = nil
	}
	return t.record(Write{Disk: i}, nil)
}
