package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
)

// The bounds of exp, iat, nbf and the lifetime, to the nanosecond.
func TestKeyring_Verify_bounds(t *testing.T) {
	at := noon().Unix()
	for _, c := range []struct {
		name   string
		change fields
		at     time.Duration // after noon
		want   api.Reason
	}{
		{"just before exp", nil, 30*time.Second - 1, ""},
		{"at exp", nil, 30 * time.Second, api.Expired},
		{"just before a fraction", fields{"exp": float64(at) + 30.5}, 30*time.Second + 499*time.Millisecond, ""},
		{"at a fraction", fields{"exp": float64(at) + 30.5}, 30*time.Second + 500*time.Millisecond, api.Expired},
		{"iat 5 s ahead", nil, -5 * time.Second, ""},
		{"iat just over 5 s ahead", nil, -5*time.Second - 1, api.NotYetValid},
		{"nbf 5 s ahead", fields{"nbf": at + 20}, 15 * time.Second, ""},
		{"nbf just over 5 s ahead", fields{"nbf": at + 20}, 15*time.Second - 1, api.NotYetValid},
		{"60 s", fields{"exp": at + 60}, 0, ""},
		{"just over 60 s", fields{"exp": float64(at) + 60.001}, 0, api.Lifetime},
		{"60 s, as early as may be", fields{"exp": at + 60}, -5 * time.Second, ""},
		{"as long as iat", fields{"iat": at + 2, "exp": at + 2}, 0, api.Lifetime},
		{"just longer than iat", fields{"iat": at + 2, "exp": float64(at) + 2.001}, 0, ""},
	} {
		_, err := ring(t).Verify([]byte(forge(t, goodHeader(), goodClaims().with(c.change), seed(1))), gateway, noon().Add(c.at))
		refused, _ := errors.AsType[*api.Refusal](err)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (refused == nil || refused.Reason != c.want):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestKeyring_Verify_bounds_ofTexts(t *testing.T) {
	for name, change := range map[string]fields{
		"jti of one":    {"jti": "~"},
		"jti of 128":    {"jti": strings.Repeat("j", 126) + " !"},
		"actor of one":  {"actor": "a"},
		"actor of 128":  {"actor": strings.Repeat("ü", 128)},
		"actor, spaces": {"actor": "Zoë O’Neill\u00a0(nuit) 🔑"},
		"actor, Farsi":  {"actor": "علی\u200cرضا"},
		"lock 64":       {"lock": 64},
		"station 1":     {"station": 1},
		"station 2^31":  {"station": "2147483647"},
		"exactly 4,096": {"pad": strings.Repeat("x", 2765)},
	} {
		token := forge(t, goodHeader(), goodClaims().with(change), seed(1))
		if change["pad"] != nil {
			token += strings.Repeat("\n", api.MaxToken-len(token))
		}
		if _, err := ring(t).Verify([]byte(token), gateway, noon()); err != nil {
			t.Errorf("%s (%d bytes): %v", name, len(token), err)
		}
	}
}

// A refusal names the jti that a trusted key has signed, so that it can be answered; nobody
// else has an answer bear an id of his choice.
func TestRefusal_names(t *testing.T) {
	for name, c := range map[string]struct {
		token       string
		id, key     string
		wantMessage string
	}{
		"expired":        {forge(t, goodHeader(), goodClaims().with(fields{"exp": 1, "iat": 0}), seed(1)), "c-1", keyID, "it expired at 1970-01-01T00:00:01.000Z, and the gateway's clock reads 2026-01-01T00:00:00.000Z"},
		"bad signature":  {forge(t, goodHeader(), goodClaims(), seed(9)), "", keyID, "the signature is not that of the trusted key front-desk"},
		"unknown key":    {forge(t, goodHeader().with(fields{"kid": "x"}), goodClaims(), seed(1)), "", "x", "no key with the id x is trusted: keys in [cloud] lists those that are"},
		"algorithm":      {unsigned(t, goodHeader().with(fields{"alg": "none"})), "", "", "the token is not signed with EdDSA, the one algorithm that is taken"},
		"unreadable jti": {forge(t, goodHeader(), goodClaims().with(fields{"jti": "\x1b"}), seed(1)), "", keyID, "its jti is not 1 to 128 printable ASCII characters without quotes and backslashes"},
		"unreadable kid": {forge(t, goodHeader().with(fields{"kid": "a\x1b"}), goodClaims(), seed(9)), "", "", "the header does not name the key (kid), which it need not where one key alone is trusted"},
		"malformed":      {"x", "", "", "the token is not a JWS in its compact form, of JSON objects of UTF-8 with each name once"},
	} {
		got := refusal(t, c.token, noon())
		if got.ID != c.id || got.KeyID != c.key || got.Message != c.wantMessage {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Error() != "refusing a command: "+c.wantMessage {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Without a gateway there is nothing that a command could be for, and without keys
// nobody who could have signed it.
func TestKeyring_Verify_nobody(t *testing.T) {
	token := []byte(forge(t, goodHeader(), goodClaims().with(fields{"aud": []string{""}}), seed(1)))
	_, err := ring(t).Verify(token, "", noon())
	if refused, _ := errors.AsType[*api.Refusal](err); refused == nil || refused.Reason != api.WrongAudience {
		t.Errorf("no gateway: %v", err)
	}
	_, err = api.Keyring{}.Verify(token, gateway, noon())
	if refused, _ := errors.AsType[*api.Refusal](err); refused == nil || refused.Reason != api.UnknownKey {
		t.Errorf("no keys: %v", err)
	}
}
