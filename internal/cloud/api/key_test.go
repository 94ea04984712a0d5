package api_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
)

func TestKey_String(t *testing.T) {
	const line = "front-desk 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	for name, text := range map[string]string{
		"as it is printed": line,
		"blanks around":    " \tfront-desk\t 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= \n",
		"without padding":  "front-desk 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo",
	} {
		key, err := api.ParseKey(text)
		if err != nil || key.String() != line || key.ID != "front-desk" {
			t.Errorf("%s: %v, %v", name, key, err)
		}
	}
}

func TestParseKey_refuses(t *testing.T) {
	private, err := x509.MarshalPKCS8PrivateKey(seed(1))
	if err != nil {
		t.Fatal(err)
	}
	info, err := x509.MarshalPKIXPublicKey(public(seed(1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, line, says string }{
		{"nothing", "", "a key is written as its id, a space and"},
		{"id alone", "front-desk", "a key is written as its id, a space and"},
		{"public alone", base64.StdEncoding.EncodeToString(public(seed(1))), "a key is written as its id, a space and"},
		{"private half as id", base64.StdEncoding.EncodeToString(seed(1).Seed()) + " " + base64.StdEncoding.EncodeToString(public(seed(1))), "the id of a key is its private half"},
		{"private half of a JWK as id", base64.RawURLEncoding.EncodeToString(seed(1).Seed()) + " " + base64.RawURLEncoding.EncodeToString(public(seed(1))), "the id of a key is its private half"},
		{"both halves as id", base64.StdEncoding.EncodeToString(seed(1)) + " " + base64.StdEncoding.EncodeToString(public(seed(1))), "the id of a key is its private half"},
		{"both halves in hexadecimal as id", hex.EncodeToString(seed(1)) + " " + base64.StdEncoding.EncodeToString(public(seed(1))), "the id of a key is its private half"},
		{"in PEM", "front-desk " + base64.StdEncoding.EncodeToString(info), "this is not the public half"},
		{"three words", "front desk 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "a key is written as"},
		{"quotes", `"front" 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=`, "the id of a key has 1 to 128 visible"},
		{"id too long", strings.Repeat("k", 129) + " 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "the id of a key has 1 to 128 visible"},
		{"no base64", "front-desk BASE64!", "this is not the public half"},
		{"too short", "front-desk " + base64.StdEncoding.EncodeToString(make([]byte, 31)), "this is not the public half"},
		{"too long", "front-desk " + base64.StdEncoding.EncodeToString(make([]byte, 33)), "this is not the public half"},
		{"lax base64", "front-desk 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURp=", "this is not the public half"},
		{"private", "front-desk " + base64.StdEncoding.EncodeToString(private), "this is not the public half"},
	} {
		_, err := api.ParseKey(c.line)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
			continue
		}
		if _, text, _ := strings.Cut(c.line, " "); len(text) > 20 && strings.Contains(err.Error(), text[:20]) {
			t.Errorf("%s: the error shows the key: %v", c.name, err)
		}
	}
}

// Whichever word of a line is a private key, or a piece of one, no error shows it.
func TestParseKey_misplaced(t *testing.T) {
	der, err := x509.MarshalPKCS8PrivateKey(seed(1))
	if err != nil {
		t.Fatal(err)
	}
	public := base64.StdEncoding.EncodeToString(public(seed(1)))
	bare, std := seed(1).Seed(), base64.StdEncoding
	for name, c := range map[string]struct{ secret, line string }{
		"swapped":             {std.EncodeToString(der), std.EncodeToString(der) + " front-desk"},
		"twice":               {std.EncodeToString(der), std.EncodeToString(der) + " " + std.EncodeToString(der)},
		"halves":              {std.EncodeToString(der)[:32], std.EncodeToString(der)[:32] + " " + std.EncodeToString(der)[32:]},
		"seed swapped":        {std.EncodeToString(bare), std.EncodeToString(bare) + " front-desk"},
		"three words":         {std.EncodeToString(der), std.EncodeToString(der) + " " + public + " front-desk"},
		"too long for any id": {hex.EncodeToString(der), hex.EncodeToString(der) + hex.EncodeToString(der) + " " + public},
	} {
		_, err := api.NewKeyring([]string{c.line})
		if err == nil || strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.secret[:20])) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Names that look alike are good ones: fingerprints and thumbprints of the key, the key
// itself, and those of key services.
func TestParseKey_ids(t *testing.T) {
	key := public(seed(1))
	thumbprint := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(key) + `"}`))
	for _, id := range []string{
		"front-desk", "a:b/c", "!~", "21fe31dfa154a261", mustGenerate(t, "").Public().ID,
		base64.RawURLEncoding.EncodeToString(thumbprint[:]), hex.EncodeToString(thumbprint[:]), base64.StdEncoding.EncodeToString(key),
		strings.Repeat("0", 64), strings.Repeat("A", 86), strings.Repeat("f", 128),
		"arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
		"projects/p/locations/global/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
		"https://v.vault.azure.net/keys/front-desk/78deebed173b48e48f55abf87ed4cf71",
	} {
		if got, err := api.ParseKey(api.Key{ID: id, Public: key}.String()); err != nil || got.ID != id {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestNewKeyring(t *testing.T) {
	a, b := api.Key{ID: "b", Public: public(seed(1))}, api.Key{ID: "a", Public: public(seed(2))}
	r, err := api.NewKeyring([]string{a.String(), b.String()})
	if err != nil || r.Len() != 2 || !slices.Equal(r.IDs(), []string{"a", "b"}) || !r.Has("a") || r.Has("c") || r.Has("") {
		t.Errorf("%v, %v", r, err)
	}
	if key, ok := r.Key("b"); !ok || !r.Trusts(key) || !r.Trusts(a) {
		t.Error("the key b is not trusted")
	}
	if _, ok := r.Key("c"); ok || r.Trusts(api.Key{ID: "c", Public: a.Public}) || r.Trusts(api.Key{}) {
		t.Error("a key under an unknown id is trusted")
	}
	if r.Trusts(api.Key{ID: "a", Public: a.Public}) {
		t.Error("another key under the same id is trusted")
	}
	if r := (api.Keyring{}); r.Has("") || r.Len() != 0 || len(r.IDs()) != 0 || r.Trusts(api.Key{}) {
		t.Error("the zero keyring trusts something")
	}
	if _, err := api.NewKeyring([]string{a.String(), api.Key{ID: "b", Public: b.Public}.String()}); err == nil ||
		err.Error() != "key 2 of 2: there is another with the id b: name each differently" {
		t.Errorf("two of the same id: %v", err)
	}
	if _, err := api.NewKeyring([]string{a.String(), "x"}); err == nil || !strings.HasPrefix(err.Error(), "key 2 of 2: a key is written") {
		t.Errorf("a bad line: %v", err)
	}
}

func mustGenerate(t *testing.T, id string) api.PrivateKey {
	t.Helper()
	k, err := api.Generate(id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGenerate(t *testing.T) {
	k := mustGenerate(t, "front-desk")
	text, err := k.PEM()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.Reveal(), "kid: front-desk\n-----BEGIN PRIVATE KEY-----\n") {
		t.Errorf("the file is %q", text.Reveal())
	}
	again, err := api.ParsePrivateKey([]byte(text.Reveal()))
	if err != nil || again.Public().String() != k.Public().String() || again.Public().ID != "front-desk" {
		t.Errorf("read again: %v, %v", again.Public(), err)
	}
	named := mustGenerate(t, "").Public()
	if len(named.ID) != 16 || named.ID == mustGenerate(t, "").Public().ID {
		t.Errorf("named %q", named.ID)
	}
	if _, err := api.Generate("front desk"); err == nil {
		t.Error("an id with a blank is taken")
	}
}

// The key of RFC 8037, appendix A, as openssl writes it.
const opensslKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
`

func TestParsePrivateKey(t *testing.T) {
	for text, id := range map[string]string{
		opensslKey:              "21fe31dfa154a261",
		"kid: a\n" + opensslKey: "a",
		"# my key\r\nkid:a.b@c/d \r\n" + opensslKey: "a.b@c/d",
		opensslKey + "kid: later\n":                 "21fe31dfa154a261",
	} {
		k, err := api.ParsePrivateKey([]byte(text))
		if err != nil || k.Public().String() != id+" 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" {
			t.Errorf("%q: %v, %v", text, k.Public(), err)
		}
	}
}

func TestParsePrivateKey_refuses(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	for text, says := range map[string]string{
		"":                         "no Ed25519 private key in PEM",
		"front-desk 11qYAYKxCrfVS": "no Ed25519 private key in PEM",
		block("ENCRYPTED PRIVATE KEY", []byte("x")): "no Ed25519 private key in PEM",
		block("PUBLIC KEY", []byte("x")):            "no Ed25519 private key in PEM",
		block("CERTIFICATE", []byte("x")):           "no Ed25519 private key in PEM",
		block("PRIVATE KEY", []byte("x")):           "no Ed25519 private key in PEM",
		block("PRIVATE KEY", rsaKey):                "no Ed25519 private key in PEM",
		"kid: a b\n" + opensslKey:                   "the id of a key",
	} {
		if _, err := api.ParsePrivateKey([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want %q", text, err, says)
		}
	}
}

func TestPrivateKey_isRedacted(t *testing.T) {
	k, err := api.ParsePrivateKey([]byte(opensslKey))
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(map[string]any{"key": k})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("key", "key", k)
	slog.New(slog.NewTextHandler(&log, nil)).Info("key", "key", k)
	text := fmt.Sprintf("%v %+v %#v %s %x %q %d %v", k, k, k, k, k, k, k, []any{k, &k}) + string(document) + log.String()
	for _, leak := range []string{"nWGx", "9d61b1", "9D61B1", "157 97 177", "0x9d, 0x61"} {
		if strings.Contains(text, leak) {
			t.Errorf("%q shows the key", text)
		}
	}
	if strings.Count(text, "redacted") != 12 {
		t.Errorf("%q", text)
	}
}

func goodCommand() api.Command {
	return api.Command{
		ID: "c-1", Gateway: gateway, Name: "unlock", Station: 1042, Lock: 2, Actor: "Pförtnerin <a&b>",
		IssuedAt: noon().UTC(), Expires: noon().UTC().Add(time.Minute), KeyID: "k",
	}
}

func TestPrivateKey_Sign(t *testing.T) {
	k := mustGenerate(t, "k")
	token, err := k.Sign(goodCommand())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := api.NewKeyring([]string{k.Public().String()})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ring.Verify([]byte(token), gateway, noon())
	if err != nil || got != goodCommand() {
		t.Errorf("%+v, %v", got, err)
	}
	parts := strings.Split(token, ".")
	for i, want := range []string{
		`{"alg":"EdDSA","kid":"k","typ":"JWT"}`,
		`{"actor":"Pförtnerin \u003ca\u0026b\u003e","aud":"6f1c7a3e-0000-4000-8000-000000000000","cmd":"unlock","exp":1767225660,"iat":1767225600,"jti":"c-1","lock":"lock-2","station":1042}`,
	} {
		if text, err := base64.RawURLEncoding.DecodeString(parts[i]); err != nil || string(text) != want {
			t.Errorf("got  %s (%v)\nwant %s", text, err, want)
		}
	}
}

// What no gateway would take is not signed; an unknown command is.
func TestPrivateKey_Sign_refuses(t *testing.T) {
	k := mustGenerate(t, "k")
	for name, change := range map[string]func(*api.Command){
		"jti":        func(c *api.Command) { c.ID = `"` },
		"gateway":    func(c *api.Command) { c.Gateway = "" },
		"name":       func(c *api.Command) { c.Name = "" },
		"station":    func(c *api.Command) { c.Station = 0 },
		"lock":       func(c *api.Command) { c.Lock = 65 },
		"actor":      func(c *api.Command) { c.Actor = "" },
		"long actor": func(c *api.Command) { c.Actor = strings.Repeat("a", 129) },
		"too long":   func(c *api.Command) { c.Expires = c.IssuedAt.Add(61 * time.Second) },
		"too short":  func(c *api.Command) { c.Expires = c.IssuedAt.Add(time.Second - 1) },
	} {
		c := goodCommand()
		change(&c)
		if token, err := k.Sign(c); err == nil || token != "" {
			t.Errorf("%s: signed as %q", name, token)
		}
	}
	c := goodCommand()
	c.Name = "test"
	if _, err := k.Sign(c); err != nil {
		t.Error(err)
	}
}

// For a point of small order anyone makes signatures. Templates often hold the one of zeros.
func TestParseKey_smallOrder(t *testing.T) {
	for _, point := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000080",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	} {
		raw, _ := hex.DecodeString(point)
		if _, err := api.ParseKey(api.Key{ID: "k", Public: raw}.String()); err == nil || !strings.Contains(err.Error(), "anyone can sign") {
			t.Errorf("%s: %v", point, err)
		}
	}
}
