package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/cloud/api"
)

// refusal returns why a token is refused.
func refusal(t *testing.T, token string, at time.Time) *api.Refusal {
	t.Helper()
	cmd, err := ring(t).Verify([]byte(token), gateway, at)
	refused, ok := errors.AsType[*api.Refusal](err)
	if !ok {
		t.Fatalf("it is taken: %+v, %v", cmd, err)
	}
	if cmd != (api.Command{}) {
		t.Errorf("a refused token is %+v", cmd)
	}
	if refused.Message == "" || strings.ContainsAny(refused.Message, "\n\x1b") {
		t.Errorf("the message is %q", refused.Message)
	}
	return refused
}

func check(t *testing.T, token string, want api.Reason, verified bool) {
	t.Helper()
	got := refusal(t, token, noon())
	if got.Reason != want || got.Verified != verified {
		t.Errorf("refused as %s (verified: %t), want %s (%t): %s", got.Reason, got.Verified, want, verified, got.Message)
	}
}

func TestKeyring_Verify(t *testing.T) {
	want := api.Command{
		ID: "c-1", Gateway: gateway, Name: "unlock", Station: 1042, Lock: 1, Actor: "porter@example.test",
		IssuedAt: noon().UTC(), Expires: noon().UTC().Add(30 * time.Second), KeyID: keyID,
	}
	good := forge(t, goodHeader(), goodClaims(), seed(1))
	for name, token := range map[string]string{
		"plain":               good,
		"white space around":  " \t\r\n\v\f" + good + "\n",
		"no typ":              forge(t, goodHeader().with(fields{"typ": absent}), goodClaims(), seed(1)),
		"typ JOSE":            forge(t, goodHeader().with(fields{"typ": "JOSE"}), goodClaims(), seed(1)),
		"typ in small":        forge(t, goodHeader().with(fields{"typ": "jwt"}), goodClaims(), seed(1)),
		"more in the header":  forge(t, goodHeader().with(fields{"jku": "https://example.test", "x5c": []int{1}}), goodClaims(), seed(1)),
		"station as a text":   forge(t, goodHeader(), goodClaims().with(fields{"station": "1042"}), seed(1)),
		"lock as a number":    forge(t, goodHeader(), goodClaims().with(fields{"lock": 1}), seed(1)),
		"lock as its number":  forge(t, goodHeader(), goodClaims().with(fields{"lock": "1"}), seed(1)),
		"one of many":         forge(t, goodHeader(), goodClaims().with(fields{"aud": []string{"a", string(gateway)}}), seed(1)),
		"more claims":         forge(t, goodHeader(), goodClaims().with(fields{"iss": 7, "sub": []int{}, "Exp": 0, "JTI": ""}), seed(1)),
		"nbf now":             forge(t, goodHeader(), goodClaims().with(fields{"nbf": noon().Unix()}), seed(1)),
		"white space in JSON": forge(t, " {\n\"alg\" : \"EdDSA\",\"kid\":\"front-desk\" } ", goodClaims(), seed(1)),
	} {
		got, err := ring(t).Verify([]byte(token), gateway, noon())
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	got, err := ring(t).Verify([]byte(forge(t, goodHeader().with(fields{"kid": "night"}), goodClaims(), seed(2))), gateway, noon())
	if err != nil || got.KeyID != "night" {
		t.Errorf("the other key: %+v, %v", got, err)
	}
}

// Where one key alone is trusted, a header that names none means that one.
func TestKeyring_Verify_oneKey(t *testing.T) {
	one, err := api.NewKeyring([]string{api.Key{ID: keyID, Public: public(seed(1))}.String()})
	if err != nil {
		t.Fatal(err)
	}
	unnamed := goodHeader().with(fields{"kid": absent})
	got, err := one.Verify([]byte(forge(t, unnamed, goodClaims(), seed(1))), gateway, noon())
	if err != nil || got.KeyID != keyID {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		ring   api.Keyring
		token  string
		reason api.Reason
	}{
		"another's signature": {one, forge(t, unnamed, goodClaims(), seed(2)), api.BadSignature},
		"another kid":         {one, forge(t, goodHeader().with(fields{"kid": "night"}), goodClaims(), seed(1)), api.UnknownKey},
		"kid null":            {one, forge(t, goodHeader().with(fields{"kid": nil}), goodClaims(), seed(1)), api.UnknownKey},
		"no key":              {api.Keyring{}, forge(t, unnamed, goodClaims(), seed(1)), api.UnknownKey},
	} {
		_, err := c.ring.Verify([]byte(c.token), gateway, noon())
		if refusal, ok := errors.AsType[*api.Refusal](err); !ok || refusal.Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is wrong before the signature is looked at, or with it.
func TestKeyring_Verify_unsigned(t *testing.T) {
	header, claims := goodHeader(), goodClaims()
	good := forge(t, header, claims, seed(1))
	parts := strings.Split(good, ".")
	for _, c := range []struct {
		name  string
		token string
		want  api.Reason
	}{
		{"oversized", forge(t, header, claims.with(fields{"pad": strings.Repeat("x", 4096)}), seed(1)), api.Oversized},
		{"oversized blanks", good + strings.Repeat(" ", 4097-len(good)), api.Oversized},
		{"nothing", "", api.Malformed},
		{"blanks", " \n", api.Malformed},
		{"not a token", "open the door", api.Malformed},
		{"claims alone", `{"cmd":"unlock"}`, api.Malformed},
		{"two parts", parts[0] + "." + parts[1], api.Malformed},
		{"four parts", good + ".e30", api.Malformed},
		{"JWS in JSON", `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, api.Malformed},
		{"bytes", "\xff\x00\xfe.\x80.\x01", api.Malformed},
		{"white space within", parts[0] + "." + parts[1] + ". " + parts[2], api.Malformed},
		{"no-break space around", "\u00a0" + good, api.Malformed},
		{"padding", parts[0] + "." + parts[1] + "." + parts[2] + "==", api.Malformed},
		{"lax base64", good[:len(good)-1] + string(good[len(good)-1]+1), api.Malformed},
		{"line break in base64", good[:len(good)-9] + "\n" + good[len(good)-9:], api.Malformed},
		{"header not JSON", forge(t, "alg=EdDSA", claims, seed(1)), api.Malformed},
		{"header a list", forge(t, []string{"EdDSA"}, claims, seed(1)), api.Malformed},
		{"header null", forge(t, "null", claims, seed(1)), api.Algorithm},
		{"claims not JSON", forge(t, header, "unlock", seed(1)), api.Malformed},
		{"claims a list", forge(t, header, []string{"unlock"}, seed(1)), api.Malformed},
		{"claims a text", forge(t, header, `"unlock"`, seed(1)), api.Malformed},
		{"claims null", forge(t, header, "null", seed(1)), api.Malformed},
		{"claims with a tail", forge(t, header, `{"cmd":"unlock"}{}`, seed(1)), api.Malformed},
		{"claims not UTF-8", forge(t, header, "{\"actor\":\"\xff\"}", seed(1)), api.Malformed},
		{"a claim twice", forge(t, header, `{"jti":"a","exp":1,"exp":2}`, seed(1)), api.Malformed},
		{"a claim twice, escaped", forge(t, header, `{"exp":1,"\u0065xp":2}`, seed(1)), api.Malformed},
		{"alg twice", forge(t, `{"alg":"none","alg":"EdDSA","kid":"front-desk"}`, claims, seed(1)), api.Malformed},
		{"typ other", forge(t, header.with(fields{"typ": "at+jwt"}), claims, seed(1)), api.Malformed},
		{"typ a number", forge(t, header.with(fields{"typ": 1}), claims, seed(1)), api.Malformed},
		{"typ null", forge(t, header.with(fields{"typ": nil}), claims, seed(1)), api.Malformed},
		{"crit", forge(t, header.with(fields{"crit": []string{"exp"}}), claims, seed(1)), api.Malformed},
		{"crit empty", forge(t, header.with(fields{"crit": nil}), claims, seed(1)), api.Malformed},
		{"b64", forge(t, header.with(fields{"b64": false, "crit": []string{"b64"}}), claims, seed(1)), api.Malformed},
		{"b64 alone", forge(t, header.with(fields{"b64": false}), claims, seed(1)), api.Malformed},
		{"alg none", unsigned(t, header.with(fields{"alg": "none"})), api.Algorithm},
		{"alg none, signed", forge(t, header.with(fields{"alg": "none"}), claims, seed(1)), api.Algorithm},
		{"alg None", unsigned(t, header.with(fields{"alg": "None"})), api.Algorithm},
		{"alg in small", forge(t, header.with(fields{"alg": "eddsa"}), claims, seed(1)), api.Algorithm},
		{"alg Ed25519", forge(t, header.with(fields{"alg": "Ed25519"}), claims, seed(1)), api.Algorithm},
		{"alg missing", forge(t, header.with(fields{"alg": absent}), claims, seed(1)), api.Algorithm},
		{"alg a number", forge(t, header.with(fields{"alg": 1}), claims, seed(1)), api.Algorithm},
		{"alg HS256", hmacSigned(t, []byte("secret")), api.Algorithm},
		{"alg HS256 with the public key", hmacSigned(t, public(seed(1))), api.Algorithm},
		{"alg HS256 with the line of the key", hmacSigned(t, []byte(api.Key{ID: keyID, Public: public(seed(1))}.String())), api.Algorithm},
		{"alg ES256", ecSigned(t), api.Algorithm},
		{"kid missing", forge(t, header.with(fields{"kid": absent}), claims, seed(1)), api.UnknownKey},
		{"kid a number", forge(t, header.with(fields{"kid": 7}), claims, seed(1)), api.UnknownKey},
		{"kid empty", forge(t, header.with(fields{"kid": ""}), claims, seed(1)), api.UnknownKey},
		{"kid unknown", forge(t, header.with(fields{"kid": "back-door"}), claims, seed(1)), api.UnknownKey},
		{"kid of another case", forge(t, header.with(fields{"kid": "Front-Desk"}), claims, seed(1)), api.UnknownKey},
		{"kid a path", forge(t, header.with(fields{"kid": "../../dev/null\x00"}), claims, seed(1)), api.UnknownKey},
		{"key in the header", forge(t, fields{"alg": "EdDSA", "jwk": fields{"kty": "OKP"}}, claims, seed(9)), api.UnknownKey},
		{"another's signature", forge(t, header, claims, seed(9)), api.BadSignature},
		{"another trusted key's", forge(t, header, claims, seed(2)), api.BadSignature},
		{"no signature", parts[0] + "." + parts[1] + ".", api.BadSignature},
		{"half a signature", parts[0] + "." + parts[1] + "." + parts[2][:40], api.BadSignature},
		{"of other claims", parts[0] + "." + encode(t, claims.with(fields{"lock": "lock-2"})) + "." + parts[2], api.BadSignature},
		{"of another header", encode(t, header.with(fields{"typ": absent})) + "." + parts[1] + "." + parts[2], api.BadSignature},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.token, c.want, false) })
	}
}

// unsigned makes a token without a signature.
func unsigned(t *testing.T, header fields) string {
	t.Helper()
	return encode(t, header) + "." + encode(t, goodClaims()) + "."
}

func hmacSigned(t *testing.T, secret []byte) string {
	t.Helper()
	return signed(t, jwt.SigningMethodHS256, secret)
}

func ecSigned(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signed(t, jwt.SigningMethodES256, key)
}

func signed(t *testing.T, method jwt.SigningMethod, key any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, jwt.MapClaims(goodClaims()))
	token.Header["kid"] = keyID
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What a trusted key has signed and what is refused all the same.
func TestKeyring_Verify_claims(t *testing.T) {
	at := noon().Unix()
	for _, c := range []struct {
		name   string
		change fields
		want   api.Reason
	}{
		{"no aud", fields{"aud": absent}, api.MissingClaim},
		{"aud null", fields{"aud": nil}, api.MissingClaim},
		{"aud empty", fields{"aud": ""}, api.MissingClaim},
		{"aud of another", fields{"aud": "6f1c7a3e-0000-4000-8000-000000000001"}, api.WrongAudience},
		{"aud of others", fields{"aud": []string{"a", "b"}}, api.WrongAudience},
		{"aud of nobody", fields{"aud": []string{}}, api.WrongAudience},
		{"aud in capitals", fields{"aud": strings.ToUpper(string(gateway))}, api.WrongAudience},
		{"aud a pattern", fields{"aud": "*"}, api.WrongAudience},
		{"aud a number", fields{"aud": 1}, api.Malformed},
		{"aud a list of more than texts", fields{"aud": []any{string(gateway), 1}}, api.Malformed},
		{"no exp", fields{"exp": absent}, api.MissingClaim},
		{"exp null", fields{"exp": nil}, api.MissingClaim},
		{"exp a text", fields{"exp": "1767225630"}, api.Malformed},
		{"exp a list", fields{"exp": []int64{at + 30}}, api.Malformed},
		{"exp true", fields{"exp": true}, api.Malformed},
		{"exp negative", fields{"exp": -1}, api.Malformed},
		{"exp beyond all", fields{"exp": 1e300}, api.Malformed},
		{"exp beyond timestamps", fields{"exp": int64(253402300800)}, api.Malformed},
		{"exp in milliseconds", fields{"exp": (at + 30) * 1000}, api.Malformed},
		{"exp at the end of time", fields{"exp": int64(253402300799)}, api.Lifetime},
		{"no iat", fields{"iat": absent}, api.MissingClaim},
		{"iat a text", fields{"iat": "now"}, api.Malformed},
		{"nbf null", fields{"nbf": nil}, api.MissingClaim},
		{"nbf a text", fields{"nbf": "now"}, api.Malformed},
		{"expired", fields{"iat": at - 60, "exp": at - 30}, api.Expired},
		{"expired long ago, and long-lived", fields{"iat": at - 90000, "exp": at - 30}, api.Expired},
		{"in the future", fields{"iat": at + 3600, "exp": at + 3630}, api.NotYetValid},
		{"nbf in the future", fields{"nbf": at + 20}, api.NotYetValid},
		{"long-lived", fields{"exp": at + 3600}, api.Lifetime},
		{"issued long ago", fields{"iat": at - 3600}, api.Lifetime},
		{"exp before iat", fields{"iat": at + 4, "exp": at + 2}, api.Lifetime},
		{"no jti", fields{"jti": absent}, api.MissingClaim},
		{"jti empty", fields{"jti": ""}, api.MissingClaim},
		{"jti a number", fields{"jti": 7}, api.Malformed},
		{"jti too long", fields{"jti": strings.Repeat("j", 129)}, api.Malformed},
		{"jti with quotes", fields{"jti": `a"b`}, api.Malformed},
		{"jti with a quote", fields{"jti": `a'b`}, api.Malformed},
		{"jti with a backslash", fields{"jti": `a\b`}, api.Malformed},
		{"jti with a line break", fields{"jti": "a\nb"}, api.Malformed},
		{"jti beyond ASCII", fields{"jti": "ü"}, api.Malformed},
		{"no cmd", fields{"cmd": absent}, api.MissingClaim},
		{"cmd other", fields{"cmd": "lock"}, api.UnknownCommand},
		{"cmd in capitals", fields{"cmd": "UNLOCK"}, api.UnknownCommand},
		{"cmd a list", fields{"cmd": []string{"unlock"}}, api.Malformed},
		{"no station", fields{"station": absent}, api.MissingClaim},
		{"station empty", fields{"station": ""}, api.MissingClaim},
		{"station 0", fields{"station": 0}, api.UnknownStation},
		{"station -1", fields{"station": -1}, api.UnknownStation},
		{"station too large", fields{"station": int64(2147483648)}, api.UnknownStation},
		{"station a fraction", fields{"station": 1.5}, api.UnknownStation},
		{"station with a zero before it", fields{"station": "01042"}, api.UnknownStation},
		{"station a name", fields{"station": "north"}, api.UnknownStation},
		{"station a list", fields{"station": []int{1042}}, api.Malformed},
		{"station true", fields{"station": true}, api.Malformed},
		{"no lock", fields{"lock": absent}, api.MissingClaim},
		{"lock 0", fields{"lock": 0}, api.UnknownLock},
		{"lock 65", fields{"lock": "lock-65"}, api.UnknownLock},
		{"lock a name", fields{"lock": "front"}, api.UnknownLock},
		{"lock an object", fields{"lock": fields{}}, api.Malformed},
		{"no actor", fields{"actor": absent}, api.MissingClaim},
		{"actor empty", fields{"actor": ""}, api.MissingClaim},
		{"actor a number", fields{"actor": 1}, api.Malformed},
		{"actor too long", fields{"actor": strings.Repeat("ü", 129)}, api.Malformed},
		{"actor with a control character", fields{"actor": "a\x1b[2J"}, api.Malformed},
		{"actor turned around", fields{"actor": "porter\u202egpj.exe"}, api.Malformed},
		{"actor isolated", fields{"actor": "\u2066porter\u2069"}, api.Malformed},
		{"actor of two lines", fields{"actor": "porter\u2028admin"}, api.Malformed},
		{"actor of two paragraphs", fields{"actor": "porter\u2029admin"}, api.Malformed},
		{"actor with something hidden", fields{"actor": "por\u200bter\ufeff"}, api.Malformed},
		{"everything in capitals", fields{"exp": absent, "EXP": at + 30}, api.MissingClaim},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, forge(t, goodHeader(), goodClaims().with(c.change), seed(1)), c.want, true)
		})
	}
}

// The claims are looked at in the order of the contract, so that a reason means that
// all before it were right.
func TestKeyring_Verify_order(t *testing.T) {
	claims := fields{"exp": 1, "iat": 1}
	for _, next := range []struct {
		claim string
		bad   any
		good  any
		want  api.Reason
	}{
		{"aud", "another", string(gateway), api.WrongAudience},
		{"exp", noon().Unix(), noon().Unix() + 30, api.Expired},
		{"iat", noon().Unix() + 6, noon().Unix(), api.NotYetValid},
		{"jti", nil, "c-1", api.MissingClaim},
		{"cmd", "test", "unlock", api.UnknownCommand},
		{"station", "north", 1042, api.UnknownStation},
		{"lock", "front", "lock-1", api.UnknownLock},
		{"actor", "a\n", "porter", api.Malformed},
	} {
		claims[next.claim] = next.bad
		check(t, forge(t, goodHeader(), claims, seed(1)), next.want, true)
		claims[next.claim] = next.good
	}
	if _, err := ring(t).Verify([]byte(forge(t, goodHeader(), claims, seed(1))), gateway, noon()); err != nil {
		t.Error(err)
	}
}
