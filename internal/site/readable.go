package site

import (
	"unicode"
	"unicode/utf8"
)

// Readable reports whether a name is UTF-8 that shows as what it is: letters, marks, digits,
// symbols and spaces of any language; nothing that breaks lines, takes no room, or turns the
// writing around where it is shown. A joiner, which takes no room, is accepted only where it
// shapes the letters of a script that is written with joiners.
func Readable(name string) bool {
	before := rune(0)
	for _, r := range name {
		switch {
		case unicode.IsPrint(r), unicode.Is(unicode.Zs, r):
		case unicode.Is(unicode.Join_Control, r) && isJoining(before):
		default:
			return false
		}
		before = r
	}
	return utf8.ValidString(name)
}

// isJoining reports whether a letter is of a script whose spelling needs joiners (Unicode
// Standard Annex 31, 2.3).
func isJoining(r rune) bool {
	return unicode.In(r,
		unicode.Arabic, unicode.Bengali, unicode.Devanagari, unicode.Gujarati, unicode.Gurmukhi, unicode.Kannada, unicode.Khmer,
		unicode.Malayalam, unicode.Mongolian, unicode.Oriya, unicode.Sinhala, unicode.Syriac, unicode.Tamil, unicode.Telugu)
}
