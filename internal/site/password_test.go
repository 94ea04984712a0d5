package site_test

import (
	"strings"
	"testing"

	"gatehouse/internal/site"
)

func TestPasswordFlaw(t *testing.T) {
	const porter = site.Email("porter@example.test")
	for want, passwords := range map[string][]string{
		"":                                    {"12345678x", "kor rekt", "€€€", strings.Repeat("x", 8), strings.Repeat("x", 256), "Porter@example.tes", "passwords"},
		"is too short: 8 characters at least": {"", "short12", "€€"},
		"is too long: 256 bytes at most":      {strings.Repeat("x", 257), strings.Repeat("€", 86)},
		"must not be the e-mail address":      {"porter@example.test", "PORTER@example.test", " porter@example.test\n"},
		"is one of the most common ones; choose another": {
			"password", "Password", "PASSWORD1", "12345678", "123456789", "1234567890", "qwertyui", "qwertyuiop", "gatehouse",
		},
	} {
		for _, password := range passwords {
			if got := site.PasswordFlaw(porter, site.Secret(password)); got != want {
				t.Errorf("%q %s, want %q", password, got, want)
			}
		}
	}
}
