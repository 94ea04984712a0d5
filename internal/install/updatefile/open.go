package updatefile

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
)

// HeadSize is the most that stands before the parts, in bytes.
const HeadSize = maxHead + maxManifest

// maxHead is the most that stands before the manifest, in bytes.
const maxHead = len(firstLine) + maxSignatures*(api.MaxKeyID+1+88+1) + len("manifest 65536\n")

// File is an update whose manifest a trusted key has signed. Its parts are compared with
// the manifest as they are read, and not before.
type File struct {
	Manifest Manifest
	from     io.ReaderAt
	begin    int64 // of the first part
}

// Open reads and verifies the manifest of an update file of that size. Errors are Invalid.
func Open(from io.ReaderAt, size int64, keys api.Keyring) (*File, error) {
	f, err := Peek(from, keys)
	if err != nil {
		return nil, err
	}
	switch whole := f.Size(); {
	case size < whole:
		return nil, refuse("The update is cut off, with %d of %d bytes: copy or download it again", size, whole)
	case size > whole:
		return nil, refuse("The update has %d bytes too many at its end: copy or download it again", size-whole)
	}
	return f, nil
}

// Size returns how many bytes the whole file has, by its manifest.
func (f *File) Size() int64 { return f.begin + f.Manifest.size() }

// Peek is Open for a file of which only the beginning may be there yet, its first
// [HeadSize] bytes at least.
func Peek(from io.ReaderAt, keys api.Keyring) (*File, error) {
	raw := make([]byte, maxHead)
	n, err := from.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.Wrap(fault.Unavailable, "The update cannot be read: is the medium still there? Try again", err)
	}
	h, err := parseHead(raw[:n])
	if err != nil {
		return nil, err
	}
	text := make([]byte, h.manifest)
	if n, err := from.ReadAt(text, int64(h.size)); n < len(text) {
		return nil, fault.Wrap(fault.Invalid, "The update ends within its manifest: copy or download it again", err)
	}
	if err := h.verify(text, keys); err != nil {
		return nil, err
	}
	f := &File{from: from, begin: int64(h.size + h.manifest)}
	if f.Manifest, err = parseManifest(text); err != nil {
		return nil, err
	}
	return f, nil
}

func refuse(format string, args ...any) error {
	return fault.New(fault.Invalid, fmt.Sprintf(format, args...))
}

// head is what stands before the manifest.
type head struct {
	signatures []signature
	manifest   int // the length of the manifest
	size       int // of the head itself
}

type signature struct {
	key  string
	sign []byte
}

// parseHead reads the lines before the manifest.
func parseHead(raw []byte) (h head, err error) {
	rest, is := bytes.CutPrefix(raw, []byte(firstLine))
	if !is {
		if bytes.HasPrefix(raw, []byte("gatehouse-update ")) {
			return h, refuse("The update is of a form that this version does not know: install an earlier update first, whose notes say that it knows this form")
		}
		return h, refuse("This is no update of Gatehouse: it takes a file whose name ends in .update")
	}
	for {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return h, refuse("The update ends within its first lines, or they are damaged: copy or download it again")
		}
		rest = after
		if length, last := strings.CutPrefix(string(line), "manifest "); last {
			h.size = len(raw) - len(rest)
			h.manifest, err = parseLength(length)
			return h, err
		}
		s, err := parseSignature(string(line))
		if err != nil || len(h.signatures) == maxSignatures {
			return h, refuse("The signatures of the update are damaged: copy or download it again")
		}
		h.signatures = append(h.signatures, s)
	}
}

func parseLength(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxManifest || strconv.Itoa(n) != text {
		return 0, refuse("The length of the manifest of the update is damaged: copy or download it again")
	}
	return n, nil
}

func parseSignature(line string) (s signature, err error) {
	id, text, _ := strings.Cut(line, " ")
	if !api.ValidKeyID(id) {
		return s, errors.New("the id of its key is none")
	}
	s.key = id
	s.sign, err = base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && (len(s.sign) != ed25519.SignatureSize || strings.Contains(text, "\r")) {
		err = errors.New("it is none of Ed25519")
	}
	return s, err
}

// verify returns nil if one of the trusted keys has signed the text.
func (h head) verify(text []byte, keys api.Keyring) error {
	if len(h.signatures) == 0 {
		return refuse("The update is not signed: take the .update file of a release")
	}
	if keys.Len() == 0 {
		return refuse("This image has no key, so it takes no update: write a card with an image that was made with GATEHOUSE_UPDATE_KEYS, and restore a backup on it")
	}
	var known, unknown []string
	for _, s := range h.signatures {
		key, trusted := keys.Key(s.key)
		switch {
		case !trusted:
			unknown = append(unknown, s.key)
		case ed25519.Verify(key.Public, append([]byte(firstLine), text...), s.sign):
			return nil
		default:
			known = append(known, s.key)
		}
	}
	if len(known) > 0 {
		return refuse("The update is damaged, or was changed after the key %s signed it: copy or download it again", known[0])
	}
	return refuse("The update is signed with the key %s, and this image trusts %s only: take the update of the one who made this image",
		strings.Join(unknown, ", "), strings.Join(keys.IDs(), ", "))
}
