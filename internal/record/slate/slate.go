// Package slate holds the revocations that the database or its copy does not have yet, over a
// restart: in a file beside the database, whose blocks are allocated while there is room and which is
// written in place, so that a full disk takes it; and in one in the runtime directory, which is memory,
// for a disk that takes no writes at all.
//
// A file has two halves of equal size, written in turn, so that a write that is cut off leaves the
// state before it. Each has a checksum, a number that grows with each write, and the identity of the
// gateway. A state of another gateway is ignored: its database was here before.
//
// The content is lines; the package knows nothing of them. Package gateway reads it at start, before any door can be
// opened; package amend writes it; package backup reads what a gateway that does not run has left.
package slate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/board/durable"
)

const (
	// halfSize is the size of a half, in bytes: with its header room for some 600 revocations, or the end of 6,000 sessions.
	halfSize = 256 << 10
	// headSize is that of a header: magic, identity, number, length and checksum.
	headSize = 8 + 16 + 8 + 8 + sha256.Size
	// Room is how much a slate holds, in bytes.
	Room = halfSize - headSize
	// saveWithin bounds the wait for a disk that may hang.
	saveWithin = 2 * time.Second
	magic      = "GHREVOKE"
)

// The names of the files, in the data directory and in the runtime directory. The former is
// of the family of the database, so that a restore sets it aside with that.
const (
	keptName   = "gatehouse.db.revocations"
	memoryName = "revocations"
)

// ErrDamaged means that a half of a file is not as it was written, so that the newest content may
// be missing.
var ErrDamaged = errors.New("a state of the revocations that are not stored is damaged")

// errFull is returned for content that has no room.
var errFull = fmt.Errorf("more than %d bytes of revocations wait to be stored", Room)

// errNoMemory means that there is no runtime directory.
var errNoMemory = errors.New("no memory outlives the process")

// Slate holds one content. Safe for concurrent use.
type Slate struct {
	path, runtime string // runtime is "" where there is no runtime directory
	id            [16]byte

	mu     sync.Mutex // guards what follows
	number uint64
	held   []byte
	memory int // the half of the file in the runtime directory that is written next

	saving chan struct{} // capacity 1: holds a token while the file beside the database is written
	kept   int           // its half that is written next
	anew   bool          // there is no such file any more, or it is damaged
	filled bool          // it may hold content
	saved  uint64        // the number of the state that it holds, once it was written
}

// state is a valid half of a file.
type state struct {
	id      [16]byte
	number  uint64
	content []byte
	half    int
}

// found is what the files hold.
type found struct {
	kept, memory []state // the newest first
	held         []byte
	absent       bool // there is no file beside the database
	err          error
}

// Open reads the slate of a gateway in its data directory and in its runtime directory, "" where
// there is none, and creates the former. It returns what they hold. After an error,
// which may be ErrDamaged, the slate works as far as it can.
func Open(data, runtime, gateway string) (s *Slate, held []byte, err error) {
	s = &Slate{path: filepath.Join(data, keptName), id: idOf(gateway), saving: make(chan struct{}, 1)}
	if runtime != "" {
		s.runtime = filepath.Join(runtime, memoryName)
	}
	f := find(s.path, s.runtime, s.id)
	s.held, s.anew = f.held, f.absent || f.err != nil
	for _, half := range slices.Concat(f.kept, f.memory) {
		s.number = max(s.number, half.number)
		s.filled = s.filled || len(half.content) > 0
	}
	s.kept, s.memory = next(f.kept), next(f.memory)
	err = f.err
	if s.anew {
		err = errors.Join(err, s.save())
	}
	return s, s.held, err
}

// Read returns what the files of a gateway that does not run hold. Nothing is changed.
func Read(data, runtime, gateway string) (held []byte, err error) {
	f := find(filepath.Join(data, keptName), filepath.Join(runtime, memoryName), idOf(gateway))
	return f.held, f.err
}

// isThere reports whether there is a file, or may be one.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// idOf returns the identity of the slates of a gateway.
func idOf(gateway string) [16]byte {
	sum := sha256.Sum256([]byte(gateway))
	return [16]byte(sum[:])
}

// find reads the newest content. Where a half is damaged, the newest may be in that: then it is
// the content of every other half, with lines that are not up to date or occur twice.
func find(kept, memory string, id [16]byte) (f found) {
	var unread, forgotten error
	f.kept, unread = read(kept, id)
	f.memory, forgotten = read(memory, id)
	f.absent = errors.Is(unread, fs.ErrNotExist)
	for _, err := range []error{unread, forgotten} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.err = errors.Join(f.err, err)
		}
	}
	all := slices.Concat(f.kept, f.memory)
	slices.SortStableFunc(all, func(a, b state) int { return cmp.Compare(b.number, a.number) })
	for i, half := range all {
		if i == 0 || f.err != nil {
			f.held = append(f.held, half.content...)
		}
	}
	return f
}

// next returns the half that does not hold the newest state.
func next(states []state) int {
	if len(states) == 0 {
		return 0
	}
	return 1 - states[0].half
}

// read returns the states of a gateway in a file, the newest first.
func read(path string, id [16]byte) (states []state, err error) {
	f, err := os.Open(path) //nolint:gosec // in a directory of the gateway's own
	if err != nil {
		return nil, err
	}
	content := make([]byte, 2*halfSize)
	_, err = io.ReadFull(f, content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %s is too short", ErrDamaged, path)
	}
	valid := false
	for i := range 2 {
		half := content[i*halfSize:][:halfSize]
		s, ok := parse(half)
		s.half, valid = i, valid || ok
		switch {
		case ok && s.id == id:
			states = append(states, s)
		case !ok && !bytes.Equal(half[:headSize], make([]byte, headSize)): // else it was never written
			err = errors.Join(err, fmt.Errorf("%w: half %d of %s", ErrDamaged, i, path))
		}
	}
	if err == nil && !valid {
		err = fmt.Errorf("%w: %s has none", ErrDamaged, path)
	}
	slices.SortFunc(states, func(a, b state) int { return cmp.Compare(b.number, a.number) })
	return states, errors.Join(err, f.Close())
}

func parse(half []byte) (s state, ok bool) {
	size := binary.BigEndian.Uint64(half[32:])
	if string(half[:8]) != magic || size > Room {
		return s, false
	}
	s = state{id: [16]byte(half[8:24]), number: binary.BigEndian.Uint64(half[24:]), content: half[headSize : headSize+int(size)]} //nolint:gosec // compared above
	return s, bytes.Equal(half[40:headSize], s.sum())
}

func (s state) sum() []byte {
	digest := sha256.New()
	digest.Write(s.head())
	digest.Write(s.content)
	return digest.Sum(nil)
}

// head is a header without its checksum.
func (s state) head() []byte {
	out := append(append(make([]byte, 0, headSize+len(s.content)), magic...), s.id[:]...)
	out = binary.BigEndian.AppendUint64(out, s.number)
	return binary.BigEndian.AppendUint64(out, uint64(len(s.content)))
}

func (s state) encode() []byte { return append(append(s.head(), s.sum()...), s.content...) }

// create allocates the blocks of a file.
func (s state) create(path string) error {
	content := make([]byte, 2*halfSize)
	copy(content, s.encode())
	return durable.Write(path, content, 0o600)
}

// write writes a state to a half of a file. After it, the other half is the next one.
func (s state) write(path string, half *int) error {
	if len(s.content) > Room {
		return errFull
	}
	err := durable.Overwrite(path, int64(*half)*halfSize, s.encode())
	if err == nil {
		*half = 1 - *half
	}
	return err
}

// Room implements the interface of package amend.
func (*Slate) Room() int { return Room }

// Hold replaces the content in memory and in the runtime directory, at once. [Slate.Save]
// brings it to the disk.
func (s *Slate) Hold(content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	s.held = content
	if s.runtime == "" {
		return errNoMemory
	}
	now := state{id: s.id, number: s.number, content: content}
	err := now.write(s.runtime, &s.memory)
	if errors.Is(err, fs.ErrNotExist) {
		s.memory = 1
		err = now.create(s.runtime)
	}
	return err
}

// Save brings the content to the disk. It waits no longer than two seconds, while the disk may
// take longer. It creates the file, also where it was removed meanwhile, and replaces one that was damaged, as soon
// as there is room.
func (s *Slate) Save(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer cancel()
	select {
	case s.saving <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller says what hangs
	}
	done := make(chan error, 1)
	go func() { done <- s.save(); <-s.saving }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // as above
	}
}

func (s *Slate) save() error {
	s.mu.Lock()
	now := state{id: s.id, number: s.number, content: s.held}
	s.mu.Unlock()
	filled := len(now.content) > 0
	if !isThere(s.path) {
		s.anew = true
	}
	if !s.anew && (!filled && !s.filled || s.saved == now.number) {
		return nil
	}
	s.filled = true
	var err error
	if len(now.content) <= Room && s.anew && now.create(s.path) == nil {
		s.anew, s.kept = false, 1
	} else {
		err = now.write(s.path, &s.kept)
	}
	if err == nil {
		s.filled, s.saved = filled, now.number
	}
	return err
}
