package site_test

import (
	"strings"
	"testing"

	"gatehouse/internal/site"
)

func TestValidLocks(t *testing.T) {
	for n, want := range map[int64]bool{-1: false, 0: false, 1: true, 64: true, 65: false, 1<<32 + 1: false} {
		if got := site.ValidLocks(n); got != want {
			t.Errorf("%d locks: %t", n, got)
		}
	}
}

func TestCleanStationName(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " \t\n": "", " North entrance\r\n": "North entrance", "Nörd 🚪": "Nörd 🚪",
		strings.Repeat("ü", 100): strings.Repeat("ü", 100), " " + strings.Repeat("n", 100) + " ": strings.Repeat("n", 100),
	} {
		if name, ok := site.CleanStationName(text); !ok || name != want {
			t.Errorf("%q: %q, %t", text, name, ok)
		}
	}
	for _, text := range []string{strings.Repeat("n", 101), "Gate\x1b[2J", "Gate\nGate", "Gate\u0085Gate", "Gate\xff"} {
		if _, ok := site.CleanStationName(text); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestValidStationSecret(t *testing.T) {
	for _, secret := range []string{"8letters", strings.Repeat("s", 128), "~!\"#$%&'()*+,-./ 0:;<=>?@[\\]^_`{|}"} {
		if !site.ValidStationSecret(site.Secret(secret)) {
			t.Errorf("%q is refused", secret)
		}
	}
	for _, secret := range []string{"", "seven77", strings.Repeat("s", 129), "schlüsselwort", "secret\tsecret", "secret\x7fsecret", "secret\xffsecret"} {
		if site.ValidStationSecret(site.Secret(secret)) {
			t.Errorf("%q is taken", secret)
		}
	}
}

func TestValidStationToken(t *testing.T) {
	for _, token := range []string{"AZaz09._~-", "8letters", strings.Repeat("t", 128)} {
		if !site.ValidStationToken(site.Secret(token)) {
			t.Errorf("%q is refused", token)
		}
	}
	for _, token := range []string{"", "seven77", strings.Repeat("t", 129), "token/with", "token%2Fwith", "token with", "tökentoken", "token+with", "token\x00with"} {
		if site.ValidStationToken(site.Secret(token)) {
			t.Errorf("%q is taken", token)
		}
	}
}
