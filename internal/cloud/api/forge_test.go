package api_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

const (
	gateway = site.GatewayID("6f1c7a3e-0000-4000-8000-000000000000")
	keyID   = "front-desk"
)

// noon is when the tokens of these tests are issued.
func noon() time.Time { return time.Unix(1767225600, 0) }

// seed returns a private key that is always the same.
func seed(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func public(private ed25519.PrivateKey) ed25519.PublicKey {
	return private.Public().(ed25519.PublicKey)
}

// ring trusts the key 1 as front-desk and the key 2 as night.
func ring(t testing.TB) api.Keyring {
	t.Helper()
	r, err := api.NewKeyring([]string{
		api.Key{ID: keyID, Public: public(seed(1))}.String(),
		api.Key{ID: "night", Public: public(seed(2))}.String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fields are the names of a JSON object.
type fields map[string]any

// with returns the fields with some set, or removed where they are absent.
func (f fields) with(change fields) fields {
	f = maps.Clone(f)
	maps.Copy(f, change)
	maps.DeleteFunc(f, func(_ string, v any) bool { return v == absent })
	return f
}

// absent stands for a field that is to be removed.
const absent = "(absent)"

func goodHeader() fields { return fields{"alg": "EdDSA", "typ": "JWT", "kid": keyID} }

func goodClaims() fields {
	return fields{
		"jti": "c-1", "iat": noon().Unix(), "exp": noon().Add(30 * time.Second).Unix(), "aud": string(gateway),
		"cmd": "unlock", "station": 1042, "lock": "lock-1", "actor": "porter@example.test",
	}
}

func encode(t testing.TB, value any) string {
	t.Helper()
	if text, ok := value.(string); ok {
		return base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// forge makes a token of a header and claims, each an object or the text that shall
// stand there, and signs it whatever they say.
func forge(t testing.TB, header, claims any, key ed25519.PrivateKey) string {
	t.Helper()
	text := encode(t, header) + "." + encode(t, claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
}
