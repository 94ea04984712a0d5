package site

import (
	"slices"
	"strings"
)

// keyboard holds runs of adjacent keys and of the alphabet, as in lazily typed
// passwords.
const keyboard = "0123456789 abcdefghijklmnopqrstuvwxyz qwertyuiop asdfghjkl zxcvbnm qwertzuiop yxcvbnm 1qaz2wsx3edc4rfv5tgb6yhn"

// Predictable reports whether a program that guesses would try text early although it
// is long: a notorious password (see [PasswordFlaw]) or a common word with nothing but
// digits and signs around it, one short piece repeated, or a walk over the keyboard. It
// is for secrets that are guessed offline, such as the passphrase of a backup.
func Predictable(text Secret) bool {
	lower := strings.ToLower(text.Reveal())
	core := strings.TrimFunc(lower, func(r rune) bool { return r < 'a' || r > 'z' && r < 0x80 })
	unit := repeated(core)
	return commonWord(lower) || commonWord(core) || commonWord(unit) ||
		len(unit) <= 4 && len(unit) < len(core) || walks(lower)
}

// commonWord reports whether a word, or a password, is among the first to be tried.
func commonWord(word string) bool {
	switch word {
	case "correct horse battery staple", "correcthorsebatterystaple", "qwerty", "qwertz", "welcome", "letmein", "secret",
		"admin", "passwort", "passphrase", "dragon", "monkey", "master", "backup", "gateway":
		return true
	}
	return notorious(word)
}

// repeated returns the shortest piece of which text is a repetition: text itself where
// there is none shorter.
func repeated(text string) string {
	for n := 1; n <= len(text)/2; n++ {
		if len(text)%n == 0 && strings.Repeat(text[:n], len(text)/n) == text {
			return text[:n]
		}
	}
	return text
}

// walks reports whether nearly every character is the same as the one before it or its
// neighbour on the keyboard or in the alphabet.
func walks(text string) bool {
	runes := []rune(text)
	if len(runes) == 0 {
		return true
	}
	turns := 0
	for i := range runes[1:] {
		pair := runes[i : i+2]
		back := []rune{pair[1], pair[0]}
		if pair[0] != pair[1] && !strings.Contains(keyboard, string(pair)) && !strings.Contains(keyboard, string(back)) {
			turns++
		}
	}
	return turns <= len(runes)/4 || len(slices.Compact(slices.Sorted(slices.Values(runes)))) < minDifferent
}

// minDifferent is how many different characters a text has that is not predictable.
const minDifferent = 5
