package updatefile

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// PartName names a part of an update.
type PartName string

// The parts, in the order in which [Pack] writes them.
const (
	Kernel     PartName = "vmlinuz"
	Initrd     PartName = "initrd"
	Entry      PartName = "entry"       // of the boot loader, with [SlotMark] for the letter
	ShellEntry PartName = "shell-entry" // likewise, which starts a shell
	Root       PartName = "root"        // the file system, compressed
)

// names lists the parts.
func names() []PartName { return []PartName{Kernel, Initrd, Entry, ShellEntry, Root} }

// SlotMark is in the entries, for the letter of the slot.
const SlotMark = "@SLOT@"

// The bounds of an update.
const (
	MaxSize     = 512 << 20 // of the file, in bytes
	maxManifest = 64 << 10
	maxBoot     = 120 << 20 // of a kernel or an initrd
	maxEntry    = 4 << 10   // with its marks; the board takes 512 bytes without them
	maxRoot     = 16 << 30  // unpacked
	blockSize   = 4096      // the size of a root is a multiple of it
)

// Sum is a SHA-256; JSON has its 64 lower-case hex digits.
type Sum [32]byte

// String returns the hex digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Sum) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(s) {
		return fmt.Errorf("%d characters are no SHA-256", len(text))
	}
	copy(s[:], raw)
	return nil
}

// Content is the size of something, in bytes, and its SHA-256.
type Content struct {
	Size   int64 `json:"size"`
	SHA256 Sum   `json:"sha256"`
}

// Part is one part of an update, as it is in the file.
type Part struct {
	Name PartName `json:"name"`
	Content
	Unpacked *Content `json:"unpacked,omitempty"` // of Root alone
}

// Manifest is what an update says of itself. Fields that a later version adds are ignored.
type Manifest struct {
	Family  string         `json:"family"`  // of the boards that it is for: "gatehouse-arm64"
	Version string         `json:"version"` // of the image
	Schema  int            `json:"schema"`  // of the database that this version writes
	Time    site.Timestamp `json:"time"`    // of the release
	Parts   []Part         `json:"parts"`
}

// Part returns a part. A manifest that was verified has each.
func (m Manifest) Part(name PartName) Part {
	for _, p := range m.Parts {
		if p.Name == name {
			return p
		}
	}
	return Part{Name: name}
}

// Unpacked returns what the root file system is on the disk.
func (m Manifest) Unpacked() Content {
	if u := m.Part(Root).Unpacked; u != nil {
		return *u
	}
	return Content{}
}

// size returns the size of all parts.
func (m Manifest) size() (sum int64) {
	for _, p := range m.Parts {
		sum += p.Size
	}
	return sum
}

var (
	versionForm = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~-]{0,63}$`)
	familyForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
)

// parseManifest reads the text of a manifest, which is signed already, and checks it.
func parseManifest(text []byte) (m Manifest, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fault.Wrap(fault.Invalid, "The manifest of this update cannot be read: make the update again, with scripts/release", err)
	}
	return m, m.check()
}

// check reports the first thing that is wrong with a manifest.
func (m Manifest) check() error {
	wrong := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "The manifest of this update is wrong: "+fmt.Sprintf(format, args...)+"; make the update again, with scripts/release")
	}
	switch {
	case !familyForm.MatchString(m.Family):
		return wrong("it names no family of boards")
	case !versionForm.MatchString(m.Version):
		return wrong("its version is none")
	case m.Schema < 1:
		return wrong("it names no schema of the database")
	}
	seen := map[PartName]bool{}
	for _, p := range m.Parts {
		most, known := maxSizes()[p.Name]
		switch {
		case !known:
			return wrong("it has a part %.20q, which is unknown", p.Name)
		case seen[p.Name]:
			return wrong("it has the part %s twice", p.Name)
		case p.Size < 1 || p.Size > most:
			return wrong("its part %s has %d bytes; 1 to %d are possible", p.Name, p.Size, most)
		case (p.Name == Root) != (p.Unpacked != nil):
			return wrong("its part %s says the wrong thing of its unpacked size", p.Name)
		}
		seen[p.Name] = true
	}
	for _, name := range names() {
		if !seen[name] {
			return wrong("its part %s is missing", name)
		}
	}
	if u := m.Unpacked(); u.Size < blockSize || u.Size > maxRoot || u.Size%blockSize != 0 {
		return wrong("its root file system has %d bytes; up to %d and a multiple of %d are possible", u.Size, int64(maxRoot), blockSize)
	}
	return nil
}

// maxSizes returns the largest size of each part.
func maxSizes() map[PartName]int64 {
	return map[PartName]int64{Kernel: maxBoot, Initrd: maxBoot, Entry: maxEntry, ShellEntry: maxEntry, Root: MaxSize}
}
