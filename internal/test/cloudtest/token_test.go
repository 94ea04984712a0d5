package cloudtest_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

func randomID() string { return rand.Text()[:10] }

// signer makes tokens, right ones and wrong ones. It knows nothing of the package that
// judges them.
type signer struct {
	key     ed25519.PrivateKey
	public  string // as a configuration names it
	gateway site.GatewayID
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key: private, public: api.Key{ID: "front-desk", Public: public}.String()}
}

type object = map[string]any

// claims are those of a command that is right, but for what is changed; nil removes.
func (s *signer) claims(change object) object {
	now := time.Now().Unix()
	all := object{
		"jti": randomID(), "iat": now, "exp": now + 60, "aud": s.gateway,
		"cmd": "unlock", "station": 1, "lock": "lock-1", "actor": "porter@example.test",
	}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// token signs claims under a header.
func (s *signer) token(header, claims object) string {
	text := encode(header) + "." + encode(claims)
	var signature []byte
	switch header["alg"] {
	case "HS256": // with the public key, which everybody knows
		mac := hmac.New(sha256.New, s.key.Public().(ed25519.PublicKey))
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	case "none":
	default:
		signature = ed25519.Sign(s.key, []byte(text))
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func header(change object) object {
	all := object{"alg": "EdDSA", "kid": "front-desk", "typ": "JWT"}
	maps.Copy(all, change)
	return all
}

// right is the token of a command that is to be carried out.
func (s *signer) right(id string) string {
	return s.token(header(nil), s.claims(object{"jti": id}))
}
