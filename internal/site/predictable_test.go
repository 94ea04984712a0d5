package site_test

import (
	"testing"

	"gatehouse/internal/site"
)

func TestPredictable(t *testing.T) {
	for want, texts := range map[bool][]string{
		true: {
			"", "password12345678", "Password-2026-11", "1234567890123456", "passwordpassword", "aaaaaaaabbbbbbbb", "abcabcabcabcabcabc",
			"qwertyuiopasdfgh", "QWERTZUIOPasdfghjkl", "gatehouse2026!!!!", "2026gatehouse2026", "correct horse battery staple", "0123456789abcdef",
			"welcome123456789", "abcdefghijklmnop", "zyxwvutsrqponmlk", "1qaz2wsx3edc4rfv", "111122223333444455556666", "ababababcdcdcdcd",
		},
		false: {
			"k7qf-3mrd-w2xn-p6ta", "four words nobody knows", "a passphrase for the test", "öäü ÖÄÜ ßéè☃ zwölf", "4851920374618523", "tomato-violin-harbour-7",
		},
	} {
		for _, text := range texts {
			if got := site.Predictable(site.Secret(text)); got != want {
				t.Errorf("%q is %t", text, got)
			}
		}
	}
}
