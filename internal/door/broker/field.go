package broker

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

// fields reads the fields of a packet one after the other (MQTT 5, section 1.5). The
// first that is wrong is kept in bad; those after it read as zero.
type fields struct {
	rest   []byte
	padded bool // a variable byte integer was longer than it need be
	bad    *refusal
}

// refuse keeps the first reason.
func (f *fields) refuse(r *refusal) {
	if f.bad == nil {
		f.bad = r
	}
}

// demand refuses the packet for r unless ok.
func (f *fields) demand(ok bool, r *refusal) {
	if !ok {
		f.refuse(r)
	}
}

// more reports whether there is another field.
func (f *fields) more() bool { return f.bad == nil && len(f.rest) > 0 }

// take returns the next n bytes, or nil where there are fewer.
func (f *fields) take(n int) []byte {
	if f.bad != nil || n > len(f.rest) {
		f.refuse(errMalformed)
		return nil
	}
	field := f.rest[:n]
	f.rest = f.rest[n:]
	return field
}

func (f *fields) one() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) two() uint16 {
	if b := f.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (f *fields) four() uint32 {
	if b := f.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// integer reads a variable byte integer: at most four bytes, and as few as it needs
// (MQTT-1.5.5-1).
func (f *fields) integer() int {
	value, n := binary.Uvarint(f.rest[:min(len(f.rest), 4)])
	f.demand(n > 0, errMalformed)
	digits := f.take(n)
	f.padded = f.padded || len(digits) > 1 && digits[n-1] == 0
	return int(value) //nolint:gosec // four bytes of 7 bits
}

// binary reads binary data.
func (f *fields) binary() []byte { return f.take(int(f.two())) }

// text reads a UTF-8 string.
func (f *fields) text() []byte {
	s := f.binary()
	f.demand(isText(s), errMalformed)
	return s
}

// topic reads a topic name: not empty, without wildcards (MQTT-4.7.1-1, MQTT-4.7.3-1).
func (f *fields) topic() {
	s := f.text()
	f.demand(len(s) > 0 && isName(s), errBreach)
}

// isText reports whether s is well-formed UTF-8 without U+0000, control characters
// and non-characters. The last two need not be refused (section 1.5.4), but no right
// station sends them, and they end up in logs.
func isText(s []byte) bool {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) || r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF {
			return false
		}
		s = s[n:]
	}
	return true
}

// isName reports whether s has no wildcards.
func isName(s []byte) bool { return !bytes.ContainsAny(s, "+#") }

// isFilter reports whether s is a topic filter: not empty, "#" alone in the last
// level, "+" alone in its level (section 4.7.1).
func isFilter(s []byte) bool {
	for i, c := range s {
		first, last := i == 0 || s[i-1] == '/', i+1 == len(s)
		switch c {
		case '+':
			if !first || !last && s[i+1] != '/' {
				return false
			}
		case '#':
			if !first || !last {
				return false
			}
		}
	}
	return len(s) > 0
}

// share splits a shared subscription into its name and its filter (section 4.8.2);
// ok is false where s is an ordinary filter.
func share(s []byte) (name, filter []byte, ok bool) {
	rest, ok := bytes.CutPrefix(s, []byte("$share/"))
	if !ok {
		return nil, s, false
	}
	name, filter, _ = bytes.Cut(rest, []byte{'/'})
	return name, filter, true
}
