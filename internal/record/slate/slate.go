// Package slate holds the revocations that the database does not have yet, over a restart: in a
// file beside the database, whose blocks are allocated while there is room and which is
// written in place, so that a full disk takes it; and in one in the runtime directory, which is memory,
// for a disk that takes no writes at all.
//
// A file has two halves of equal size, written in turn, so that a write that is cut off leaves the
// state before it. Each has a checksum, a number that grows with each write, and the identity of the file beside the
// database. That is drawn when the file is created: what the runtime directory holds of a
// database that was replaced by a restore is ignored.
//
// It knows nothing of what it holds. Package gateway reads it at start, before any door can be
// opened; package amend writes it.
package slate

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"gatehouse/internal/board/durable"
)

const (
	// halfSize is the size of a half, in bytes: with its header room for some 300 revocations.
	halfSize = 128 << 10
	// headSize is that of a header: magic, identity, number, length and checksum.
	headSize = 8 + 16 + 8 + 8 + sha256.Size
	// Room is how much a slate holds, in bytes.
	Room = halfSize - headSize
	// saveWithin bounds the wait for a disk that may hang.
	saveWithin = 2 * time.Second
	magic      = "GHREVOKE"
)

// errFull is returned for content that has no room.
var errFull = fmt.Errorf("more than %d bytes of revocations wait to be stored", Room)

// Slate holds one content. Safe for concurrent use.
type Slate struct {
	path, runtime string
	id            [16]byte // zero: there is no file beside the database

	mu     sync.Mutex // guards what follows
	number uint64
	held   []byte
	memory int // the half of the file in the runtime directory that is written next

	saving chan struct{} // capacity 1: holds a token while the file beside the database is written
	kept   int           // its half that is written next
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

// Open reads the slate at path and the one in the runtime directory, "" where there is none,
// and creates the former where it does not exist. It returns what they hold. After an error
// the slate works as far as it can.
func Open(path, runtime string) (s *Slate, held []byte, err error) {
	s = &Slate{path: path, runtime: runtime, saving: make(chan struct{}, 1)}
	kept, err := read(path)
	memory, _ := read(runtime)
	s.number = max(kept.number, memory.number) // also beyond what is ignored
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, _ = rand.Read(kept.id[:]) // never fails (crypto/rand)
		if err = create(path, kept); err != nil {
			kept.id = [16]byte{}
		}
		if memory.id != [16]byte{} {
			memory = state{} // it belongs to a database that was here before
		}
	case err != nil: // torn, or it cannot be read
		kept = state{id: memory.id}
	case memory.id != kept.id && memory.id != [16]byte{}:
		memory = state{}
	}
	s.id, s.held = kept.id, kept.content
	if memory.number > kept.number {
		s.held = memory.content
	}
	s.kept, s.memory, s.filled = 1-kept.half, 1-memory.half, len(kept.content) > 0 || errors.Is(err, ErrTorn)
	return s, s.held, err
}

// errNoMemory means that there is no runtime directory.
var errNoMemory = errors.New("no memory outlives the process")

// ErrTorn means that no half of a file is valid: what it held is lost, or a later version wrote it.
var ErrTorn = errors.New("no state of the revocations is readable")

// read returns the newest state in a file.
func read(path string) (newest state, err error) {
	content, err := os.ReadFile(path) //nolint:gosec // in a directory of the gateway's own
	if err != nil {
		return state{}, err
	}
	err = ErrTorn
	for i := range 2 {
		if half, ok := parse(content[min(i*halfSize, len(content)):]); ok && (err != nil || half.number > newest.number) {
			newest, err = half, nil
			newest.half = i
		}
	}
	return newest, err
}

func parse(half []byte) (s state, ok bool) {
	if len(half) < headSize || string(half[:8]) != magic {
		return s, false
	}
	size := binary.BigEndian.Uint64(half[32:])
	if size > uint64(len(half)-headSize) {
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
func create(path string, s state) error {
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
		err = create(s.runtime, now)
	}
	return err
}

// Save brings the content to the disk. It waits no longer than two seconds, while the disk may
// take longer.
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
	if !filled && !s.filled || s.saved == now.number {
		return nil
	}
	s.filled = true
	err := now.write(s.path, &s.kept)
	if err == nil {
		s.filled, s.saved = filled, now.number
	}
	return err
}
