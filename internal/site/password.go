package site

import (
	"fmt"
	"strings"
)

// The bounds of an account's password, in bytes. The least is that of NIST SP
// 800-63B (revision 3), section 5.1.1.2; the most lies well above the 64 characters
// that it wants taken, and bounds what is hashed.
const (
	MinPassword = 8
	MaxPassword = 256
)

// PasswordFlaw returns the first thing that is wrong with a password for the account with
// that address, as the rest of a sentence that begins with "the password"; "" for a good
// one. What it refuses beyond the length (the name of the account, the common ones), and
// that it asks for no kinds of characters, is NIST SP 800-63B (revision 3), section
// 5.1.1.2, too.
func PasswordFlaw(email Email, password Secret) string {
	text := password.Reveal()
	switch {
	case len(text) < MinPassword:
		return fmt.Sprintf("is too short: %d characters at least", MinPassword)
	case len(text) > MaxPassword:
		return fmt.Sprintf("is too long: %d bytes at most", MaxPassword)
	case strings.EqualFold(strings.TrimSpace(text), string(email)):
		return "must not be the e-mail address"
	case notorious(strings.ToLower(text)):
		return "is one of the most common ones; choose another"
	}
	return ""
}

// notorious reports whether text heads the lists that every attacker has.
func notorious(text string) bool {
	switch text {
	case "password", "password1", "password12", "password123", "passw0rd", "p@ssw0rd", "p@ssword",
		"12345678", "123456789", "1234567890", "0123456789", "87654321", "11111111", "00000000",
		"12341234", "11223344", "123123123", "1q2w3e4r", "1q2w3e4r5t", "1qaz2wsx",
		"qwertyui", "qwertyuiop", "qwerty12", "qwerty123", "qwertz123", "asdfghjkl", "abcd1234",
		"iloveyou", "sunshine", "princess", "football", "baseball", "superman", "trustno1",
		"letmein1", "welcome1", "changeme", "administrator", "admin123", "gatehouse":
		return true
	}
	return false
}
