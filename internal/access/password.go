package access

import (
	"crypto/rand"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	minPassword = 8   // bytes of an account's password
	maxPassword = 256 // bytes of an account's password
)

// CheckPassword says whether password will do for the account with that address:
// Invalid when it has fewer than 8 or more than 256 bytes, is the address itself or
// among the first that anyone would try.
func CheckPassword(email site.Email, password site.Secret) error {
	text := password.Reveal()
	switch {
	case len(text) < minPassword:
		return fault.New(fault.Invalid, "The password is too short: 8 characters at least")
	case len(text) > maxPassword:
		return fault.New(fault.Invalid, "The password is too long: 256 bytes at most")
	case strings.EqualFold(strings.TrimSpace(text), string(email)):
		return fault.New(fault.Invalid, "The password must not be the e-mail address")
	case notorious(strings.ToLower(text)):
		return fault.New(fault.Invalid, "The password is one of the most common ones; choose another")
	}
	return nil
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

// readable are the characters of a generated password: no two look alike.
const readable = "abcdefghjkmnpqrstuvwxyz23456789"

// GeneratePassword makes a password of 20 readable characters, 99 random bits.
func GeneratePassword() site.Secret {
	const length = 20
	const fair = 256 / len(readable) * len(readable) // bytes from here on would favour some characters
	out := make([]byte, 0, length)
	for len(out) < length {
		for _, b := range random(length) {
			if int(b) < fair && len(out) < length {
				out = append(out, readable[int(b)%len(readable)])
			}
		}
	}
	return site.Secret(out)
}

// random gives n random bytes; crypto/rand ends the process rather than fail.
func random(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.Read(out)
	return out
}
