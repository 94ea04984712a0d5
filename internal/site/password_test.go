package site_test

import (
	"strings"
	"testing"

	"gatehouse/internal/site"
)

func TestJudgePassword(t *testing.T) {
	const porter = site.Email("porter@example.test")
	for want, passwords := range map[site.PasswordFlaw][]string{
		site.PasswordGood:    {"12345678x", "kor rekt", "€€€", strings.Repeat("x", 8), strings.Repeat("x", 256), "Porter@example.tes", "passwords"},
		site.PasswordShort:   {"", "short12", "€€"},
		site.PasswordLong:    {strings.Repeat("x", 257), strings.Repeat("€", 86)},
		site.PasswordIsEmail: {"porter@example.test", "PORTER@example.test", " porter@example.test\n"},
		site.PasswordNotorious: {
			"password", "Password", "PASSWORD1", "12345678", "123456789", "1234567890", "qwertyui", "qwertyuiop", "gatehouse",
		},
	} {
		for _, password := range passwords {
			if got := site.JudgePassword(porter, site.Secret(password)); got != want {
				t.Errorf("%q has flaw %d, want %d", password, got, want)
			}
		}
	}
}
