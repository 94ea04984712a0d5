package access

import (
	"crypto/rand"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// CheckPassword checks a password for the account with that address: Invalid, with a
// sentence, when [site.PasswordFlaw] finds a flaw in it.
func CheckPassword(email site.Email, password site.Secret) error {
	if flaw := site.PasswordFlaw(email, password); flaw != "" {
		return fault.New(fault.Invalid, "The password "+flaw)
	}
	return nil
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

// random returns n random bytes; crypto/rand ends the process rather than fail.
func random(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.Read(out)
	return out
}
