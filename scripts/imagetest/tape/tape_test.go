package tape_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/scripts/imagetest/tape"
)

// emulator is a client of a disk, as the emulator is.
type emulator struct {
	t    *testing.T
	conn net.Conn
}

// attach agrees on a disk, with the option that asks for its name alone.
func attach(t *testing.T, socket string) emulator {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	e := emulator{t, conn}
	e.receive(18)
	e.send(append(binary.BigEndian.AppendUint32(nil, 3), append([]byte("IHAVEOPT"), 0, 0, 0, 1, 0, 0, 0, 0)...))
	e.receive(10)
	return e
}

func (e emulator) send(p []byte) {
	e.t.Helper()
	if _, err := e.conn.Write(p); err != nil {
		e.t.Fatal(err)
	}
}

func (e emulator) receive(n int) []byte {
	e.t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(e.conn, p); err != nil {
		e.t.Fatal(err)
	}
	return p
}

// do sends a request and returns what it answers.
func (e emulator) do(command uint16, offset, length int, data []byte) []byte {
	e.t.Helper()
	be := binary.BigEndian
	head := be.AppendUint16(be.AppendUint16(be.AppendUint32(nil, 0x25609513), 0), command)
	head = be.AppendUint32(be.AppendUint64(be.AppendUint64(head, 7), uint64(offset)), uint32(length))
	e.send(append(head, data...))
	answer := e.receive(16)
	if code := be.Uint32(answer[4:]); code != 0 {
		e.t.Fatalf("request %d is answered with error %d", command, code)
	}
	if command != 0 {
		return nil
	}
	return e.receive(length)
}

const size = 64 * tape.Sector

// sectors returns so many sectors of one letter.
func sectors(letter byte, n int) []byte { return bytes.Repeat([]byte{letter}, n*tape.Sector) }

// disk makes a disk of zeros.
func disk(t *testing.T, name string) (file, socket string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, file + ".socket"
}

func TestTape_Cut(t *testing.T) {
	for name, c := range map[string]struct {
		config tape.Config
		want   string // the first letters of sectors 0 and 8
	}{
		"a card":           {tape.Config{}, "A\x00"},
		"flash memory":     {tape.Config{Durable: true}, "AB"},
		"a disk that lies": {tape.Config{Lies: true}, "\x00\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.File, c.config.Socket = disk(t, "disk")
			tp, err := tape.Start("", c.config)
			if err != nil {
				t.Fatal(err)
			}
			e := attach(t, c.config.Socket)
			e.do(1, 0, tape.Sector, sectors('A', 1))
			e.do(3, 0, 0, nil)
			e.do(1, 8*tape.Sector, tape.Sector, sectors('B', 1))
			if got := e.do(0, 8*tape.Sector, tape.Sector, nil); !bytes.Equal(got, sectors('B', 1)) {
				t.Errorf("what was written reads as %.4q", got)
			}
			if err := tp.Cut(true); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(c.config.File)
			if err != nil {
				t.Fatal(err)
			}
			if letters := string([]byte{got[0], got[8*tape.Sector]}); letters != c.want {
				t.Errorf("after the power cut the disk has %q, want %q", letters, c.want)
			}
		})
	}
}

func TestRecording(t *testing.T) {
	file, socket := disk(t, "disk")
	before := filepath.Join(t.TempDir(), "before")
	if err := os.WriteFile(before, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	tp, err := tape.Start(filepath.Join(t.TempDir(), "record"), tape.Config{File: file, Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	e := attach(t, socket)
	e.do(1, 0, 2*tape.Sector, sectors('A', 2))
	e.do(3, 0, 0, nil)
	e.do(1, tape.Sector, tape.Sector, sectors('B', 1))
	e.do(6, 0, tape.Sector, nil)
	tp.Stop()
	r, err := tp.Recording(before)
	if err != nil {
		t.Fatal(err)
	}
	region := r.Watch(0, tape.Sector, tape.Sector)
	keys := map[uint64]string{}
	for _, c := range []struct {
		at   int
		keep tape.Keep
		want string
	}{
		{0, tape.KeepAll, "\x00\x00"},
		{1, tape.KeepNone, "\x00\x00"},
		{1, tape.KeepAll, "AA"},
		{2, tape.KeepNone, "AA"},
		{3, tape.KeepNone, "AA"},
		{3, tape.KeepAll, "AB"},
		{4, tape.KeepAll, "\x00B"},
		{4, tape.KeepNone, "AA"},
	} {
		r.Play(c.at)
		view, got := r.Cut(0, c.keep), make([]byte, 2*tape.Sector)
		if _, err := view.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if letters := string([]byte{got[0], got[tape.Sector]}); letters != c.want {
			t.Errorf("a power cut after %d writes (%d) leaves %q, want %q", c.at, c.keep, letters, c.want)
		}
		key, second := view.Fingerprint(region), c.want[1:]
		if former, known := keys[key]; known && former != second {
			t.Errorf("the fingerprint of %q is that of %q", second, former)
		}
		keys[key] = second
		copied, err := os.Create(filepath.Join(t.TempDir(), "copy"))
		if err != nil {
			t.Fatal(err)
		}
		if err := view.WriteTo(copied, 0, size); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(copied.Name())
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > tape.Sector && string([]byte{text[0], text[tape.Sector]}) != c.want {
			t.Errorf("the copy after %d writes begins with %q and %q, want %q", c.at, text[0], text[tape.Sector], c.want)
		}
		_ = copied.Close()
	}
	if len(keys) != 3 {
		t.Errorf("a sector with three contents has %d fingerprints", len(keys))
	}
}
