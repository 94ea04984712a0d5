package cloudcommand_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/cloud/cloudcommand"
)

// refusal gives why a token is refused.
func refusal(t *testing.T, token string, at time.Time) *cloudcommand.Refusal {
	t.Helper()
	cmd, err := ring(t).Verify([]byte(token), gateway, at)
	refused, ok := errors.AsType[*cloudcommand.Refusal](err)
	if !ok {
		t.Fatalf("it is taken: %+v, %v", cmd, err)
	}
	if cmd != (cloudcommand.Command{}) {
		t.Errorf("a refused token gives %+v", cmd)
	}
	if refused.Message == "" || strings.ContainsAny(refused.Message, "\n\x1b") {
		t.Errorf("the message is %q", refused.Message)
	}
	return refused
}

func check(t *testing.T, token string, want cloudcommand.Reason, verified bool) {
	t.Helper()
	got := refusal(t, token, noon())
	if got.Reason != want || got.Verified != verified {
		t.Errorf("refused as %s (verified: %t), want %s (%t): %s", got.Reason, got.Verified, want, verified, got.Message)
	}
}

func TestKeyring_Verify(t *testing.T) {
	want := cloudcommand.Command{
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
	one, err := cloudcommand.NewKeyring([]string{cloudcommand.Key{ID: keyID, Public: public(seed(1))}.String()})
	if err != nil {
		t.Fatal(err)
	}
	unnamed := goodHeader().with(fields{"kid": absent})
	got, err := one.Verify([]byte(forge(t, unnamed, goodClaims(), seed(1))), gateway, noon())
	if err != nil || got.KeyID != keyID {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		ring   cloudcommand.Keyring
		token  string
		reason cloudcommand.Reason
	}{
		"another's signature": {one, forge(t, unnamed, goodClaims(), seed(2)), cloudcommand.BadSignature},
		"another kid":         {one, forge(t, goodHeader().with(fields{"kid": "night"}), goodClaims(), seed(1)), cloudcommand.UnknownKey},
		"kid null":            {one, forge(t, goodHeader().with(fields{"kid": nil}), goodClaims(), seed(1)), cloudcommand.UnknownKey},
		"no key":              {cloudcommand.Keyring{}, forge(t, unnamed, goodClaims(), seed(1)), cloudcommand.UnknownKey},
	} {
		_, err := c.ring.Verify([]byte(c.token), gateway, noon())
		if refusal, ok := errors.AsType[*cloudcommand.Refusal](err); !ok || refusal.Reason != c.reason {
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
		want  cloudcommand.Reason
	}{
		{"oversized", forge(t, header, claims.with(fields{"pad": strings.Repeat("x", 4096)}), seed(1)), cloudcommand.Oversized},
		{"oversized blanks", good + strings.Repeat(" ", 4097-len(good)), cloudcommand.Oversized},
		{"nothing", "", cloudcommand.Malformed},
		{"blanks", " \n", cloudcommand.Malformed},
		{"not a token", "open the door", cloudcommand.Malformed},
		{"claims alone", `{"cmd":"unlock"}`, cloudcommand.Malformed},
		{"two parts", parts[0] + "." + parts[1], cloudcommand.Malformed},
		{"four parts", good + ".e30", cloudcommand.Malformed},
		{"JWS in JSON", `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, cloudcommand.Malformed},
		{"bytes", "\xff\x00\xfe.\x80.\x01", cloudcommand.Malformed},
		{"white space within", parts[0] + "." + parts[1] + ". " + parts[2], cloudcommand.Malformed},
		{"no-break space around", "\u00a0" + good, cloudcommand.Malformed},
		{"padding", parts[0] + "." + parts[1] + "." + parts[2] + "==", cloudcommand.Malformed},
		{"lax base64", good[:len(good)-1] + string(good[len(good)-1]+1), cloudcommand.Malformed},
		{"line break in base64", good[:len(good)-9] + "\n" + good[len(good)-9:], cloudcommand.Malformed},
		{"header not JSON", forge(t, "alg=EdDSA", claims, seed(1)), cloudcommand.Malformed},
		{"header a list", forge(t, []string{"EdDSA"}, claims, seed(1)), cloudcommand.Malformed},
		{"header null", forge(t, "null", claims, seed(1)), cloudcommand.Algorithm},
		{"claims not JSON", forge(t, header, "unlock", seed(1)), cloudcommand.Malformed},
		{"claims a list", forge(t, header, []string{"unlock"}, seed(1)), cloudcommand.Malformed},
		{"claims a text", forge(t, header, `"unlock"`, seed(1)), cloudcommand.Malformed},
		{"claims null", forge(t, header, "null", seed(1)), cloudcommand.Malformed},
		{"claims with a tail", forge(t, header, `{"cmd":"unlock"}{}`, seed(1)), cloudcommand.Malformed},
		{"claims not UTF-8", forge(t, header, "{\"actor\":\"\xff\"}", seed(1)), cloudcommand.Malformed},
		{"a claim twice", forge(t, header, `{"jti":"a","exp":1,"exp":2}`, seed(1)), cloudcommand.Malformed},
		{"a claim twice, escaped", forge(t, header, `{"exp":1,"\u0065xp":2}`, seed(1)), cloudcommand.Malformed},
		{"alg twice", forge(t, `{"alg":"none","alg":"EdDSA","kid":"front-desk"}`, claims, seed(1)), cloudcommand.Malformed},
		{"typ other", forge(t, header.with(fields{"typ": "at+jwt"}), claims, seed(1)), cloudcommand.Malformed},
		{"typ a number", forge(t, header.with(fields{"typ": 1}), claims, seed(1)), cloudcommand.Malformed},
		{"typ null", forge(t, header.with(fields{"typ": nil}), claims, seed(1)), cloudcommand.Malformed},
		{"crit", forge(t, header.with(fields{"crit": []string{"exp"}}), claims, seed(1)), cloudcommand.Malformed},
		{"crit empty", forge(t, header.with(fields{"crit": nil}), claims, seed(1)), cloudcommand.Malformed},
		{"b64", forge(t, header.with(fields{"b64": false, "crit": []string{"b64"}}), claims, seed(1)), cloudcommand.Malformed},
		{"b64 alone", forge(t, header.with(fields{"b64": false}), claims, seed(1)), cloudcommand.Malformed},
		{"alg none", unsigned(t, header.with(fields{"alg": "none"})), cloudcommand.Algorithm},
		{"alg none, signed", forge(t, header.with(fields{"alg": "none"}), claims, seed(1)), cloudcommand.Algorithm},
		{"alg None", unsigned(t, header.with(fields{"alg": "None"})), cloudcommand.Algorithm},
		{"alg in small", forge(t, header.with(fields{"alg": "eddsa"}), claims, seed(1)), cloudcommand.Algorithm},
		{"alg Ed25519", forge(t, header.with(fields{"alg": "Ed25519"}), claims, seed(1)), cloudcommand.Algorithm},
		{"alg missing", forge(t, header.with(fields{"alg": absent}), claims, seed(1)), cloudcommand.Algorithm},
		{"alg a number", forge(t, header.with(fields{"alg": 1}), claims, seed(1)), cloudcommand.Algorithm},
		{"alg HS256", hmacSigned(t, []byte("secret")), cloudcommand.Algorithm},
		{"alg HS256 with the public key", hmacSigned(t, public(seed(1))), cloudcommand.Algorithm},
		{"alg HS256 with the line of the key", hmacSigned(t, []byte(cloudcommand.Key{ID: keyID, Public: public(seed(1))}.String())), cloudcommand.Algorithm},
		{"alg ES256", ecSigned(t), cloudcommand.Algorithm},
		{"kid missing", forge(t, header.with(fields{"kid": absent}), claims, seed(1)), cloudcommand.UnknownKey},
		{"kid a number", forge(t, header.with(fields{"kid": 7}), claims, seed(1)), cloudcommand.UnknownKey},
		{"kid empty", forge(t, header.with(fields{"kid": ""}), claims, seed(1)), cloudcommand.UnknownKey},
		{"kid unknown", forge(t, header.with(fields{"kid": "back-door"}), claims, seed(1)), cloudcommand.UnknownKey},
		{"kid of another case", forge(t, header.with(fields{"kid": "Front-Desk"}), claims, seed(1)), cloudcommand.UnknownKey},
		{"kid a path", forge(t, header.with(fields{"kid": "../../dev/null\x00"}), claims, seed(1)), cloudcommand.UnknownKey},
		{"key in the header", forge(t, fields{"alg": "EdDSA", "jwk": fields{"kty": "OKP"}}, claims, seed(9)), cloudcommand.UnknownKey},
		{"another's signature", forge(t, header, claims, seed(9)), cloudcommand.BadSignature},
		{"another trusted key's", forge(t, header, claims, seed(2)), cloudcommand.BadSignature},
		{"no signature", parts[0] + "." + parts[1] + ".", cloudcommand.BadSignature},
		{"half a signature", parts[0] + "." + parts[1] + "." + parts[2][:40], cloudcommand.BadSignature},
		{"of other claims", parts[0] + "." + encode(t, claims.with(fields{"lock": "lock-2"})) + "." + parts[2], cloudcommand.BadSignature},
		{"of another header", encode(t, header.with(fields{"typ": absent})) + "." + parts[1] + "." + parts[2], cloudcommand.BadSignature},
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
		want   cloudcommand.Reason
	}{
		{"no aud", fields{"aud": absent}, cloudcommand.MissingClaim},
		{"aud null", fields{"aud": nil}, cloudcommand.MissingClaim},
		{"aud empty", fields{"aud": ""}, cloudcommand.MissingClaim},
		{"aud of another", fields{"aud": "6f1c7a3e-0000-4000-8000-000000000001"}, cloudcommand.WrongAudience},
		{"aud of others", fields{"aud": []string{"a", "b"}}, cloudcommand.WrongAudience},
		{"aud of nobody", fields{"aud": []string{}}, cloudcommand.WrongAudience},
		{"aud in capitals", fields{"aud": strings.ToUpper(string(gateway))}, cloudcommand.WrongAudience},
		{"aud a pattern", fields{"aud": "*"}, cloudcommand.WrongAudience},
		{"aud a number", fields{"aud": 1}, cloudcommand.Malformed},
		{"aud a list of more than texts", fields{"aud": []any{string(gateway), 1}}, cloudcommand.Malformed},
		{"no exp", fields{"exp": absent}, cloudcommand.MissingClaim},
		{"exp null", fields{"exp": nil}, cloudcommand.MissingClaim},
		{"exp a text", fields{"exp": "1767225630"}, cloudcommand.Malformed},
		{"exp a list", fields{"exp": []int64{at + 30}}, cloudcommand.Malformed},
		{"exp true", fields{"exp": true}, cloudcommand.Malformed},
		{"exp negative", fields{"exp": -1}, cloudcommand.Malformed},
		{"exp beyond all", fields{"exp": 1e300}, cloudcommand.Malformed},
		{"exp beyond timestamps", fields{"exp": int64(253402300800)}, cloudcommand.Malformed},
		{"exp in milliseconds", fields{"exp": (at + 30) * 1000}, cloudcommand.Malformed},
		{"exp at the end of time", fields{"exp": int64(253402300799)}, cloudcommand.Lifetime},
		{"no iat", fields{"iat": absent}, cloudcommand.MissingClaim},
		{"iat a text", fields{"iat": "now"}, cloudcommand.Malformed},
		{"nbf null", fields{"nbf": nil}, cloudcommand.MissingClaim},
		{"nbf a text", fields{"nbf": "now"}, cloudcommand.Malformed},
		{"expired", fields{"iat": at - 60, "exp": at - 30}, cloudcommand.Expired},
		{"expired long ago, and long-lived", fields{"iat": at - 90000, "exp": at - 30}, cloudcommand.Expired},
		{"in the future", fields{"iat": at + 3600, "exp": at + 3630}, cloudcommand.NotYetValid},
		{"nbf in the future", fields{"nbf": at + 20}, cloudcommand.NotYetValid},
		{"long-lived", fields{"exp": at + 3600}, cloudcommand.Lifetime},
		{"issued long ago", fields{"iat": at - 3600}, cloudcommand.Lifetime},
		{"exp before iat", fields{"iat": at + 4, "exp": at + 2}, cloudcommand.Lifetime},
		{"no jti", fields{"jti": absent}, cloudcommand.MissingClaim},
		{"jti empty", fields{"jti": ""}, cloudcommand.MissingClaim},
		{"jti a number", fields{"jti": 7}, cloudcommand.Malformed},
		{"jti too long", fields{"jti": strings.Repeat("j", 129)}, cloudcommand.Malformed},
		{"jti with quotes", fields{"jti": `a"b`}, cloudcommand.Malformed},
		{"jti with a quote", fields{"jti": `a'b`}, cloudcommand.Malformed},
		{"jti with a backslash", fields{"jti": `a\b`}, cloudcommand.Malformed},
		{"jti with a line break", fields{"jti": "a\nb"}, cloudcommand.Malformed},
		{"jti beyond ASCII", fields{"jti": "ü"}, cloudcommand.Malformed},
		{"no cmd", fields{"cmd": absent}, cloudcommand.MissingClaim},
		{"cmd other", fields{"cmd": "lock"}, cloudcommand.UnknownCommand},
		{"cmd in capitals", fields{"cmd": "UNLOCK"}, cloudcommand.UnknownCommand},
		{"cmd a list", fields{"cmd": []string{"unlock"}}, cloudcommand.Malformed},
		{"no station", fields{"station": absent}, cloudcommand.MissingClaim},
		{"station empty", fields{"station": ""}, cloudcommand.MissingClaim},
		{"station 0", fields{"station": 0}, cloudcommand.UnknownStation},
		{"station -1", fields{"station": -1}, cloudcommand.UnknownStation},
		{"station too large", fields{"station": int64(2147483648)}, cloudcommand.UnknownStation},
		{"station a fraction", fields{"station": 1.5}, cloudcommand.UnknownStation},
		{"station with a zero before it", fields{"station": "01042"}, cloudcommand.UnknownStation},
		{"station a name", fields{"station": "north"}, cloudcommand.UnknownStation},
		{"station a list", fields{"station": []int{1042}}, cloudcommand.Malformed},
		{"station true", fields{"station": true}, cloudcommand.Malformed},
		{"no lock", fields{"lock": absent}, cloudcommand.MissingClaim},
		{"lock 0", fields{"lock": 0}, cloudcommand.UnknownLock},
		{"lock 65", fields{"lock": "lock-65"}, cloudcommand.UnknownLock},
		{"lock a name", fields{"lock": "front"}, cloudcommand.UnknownLock},
		{"lock an object", fields{"lock": fields{}}, cloudcommand.Malformed},
		{"no actor", fields{"actor": absent}, cloudcommand.MissingClaim},
		{"actor empty", fields{"actor": ""}, cloudcommand.MissingClaim},
		{"actor a number", fields{"actor": 1}, cloudcommand.Malformed},
		{"actor too long", fields{"actor": strings.Repeat("ü", 129)}, cloudcommand.Malformed},
		{"actor with a control character", fields{"actor": "a\x1b[2J"}, cloudcommand.Malformed},
		{"actor turned around", fields{"actor": "porter\u202egpj.exe"}, cloudcommand.Malformed},
		{"actor isolated", fields{"actor": "\u2066porter\u2069"}, cloudcommand.Malformed},
		{"actor of two lines", fields{"actor": "porter\u2028admin"}, cloudcommand.Malformed},
		{"actor of two paragraphs", fields{"actor": "porter\u2029admin"}, cloudcommand.Malformed},
		{"actor with something hidden", fields{"actor": "por\u200bter\ufeff"}, cloudcommand.Malformed},
		{"everything in capitals", fields{"exp": absent, "EXP": at + 30}, cloudcommand.MissingClaim},
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
		want  cloudcommand.Reason
	}{
		{"aud", "another", string(gateway), cloudcommand.WrongAudience},
		{"exp", noon().Unix(), noon().Unix() + 30, cloudcommand.Expired},
		{"iat", noon().Unix() + 6, noon().Unix(), cloudcommand.NotYetValid},
		{"jti", nil, "c-1", cloudcommand.MissingClaim},
		{"cmd", "test", "unlock", cloudcommand.UnknownCommand},
		{"station", "north", 1042, cloudcommand.UnknownStation},
		{"lock", "front", "lock-1", cloudcommand.UnknownLock},
		{"actor", "a\n", "porter", cloudcommand.Malformed},
	} {
		claims[next.claim] = next.bad
		check(t, forge(t, goodHeader(), claims, seed(1)), next.want, true)
		claims[next.claim] = next.good
	}
	if _, err := ring(t).Verify([]byte(forge(t, goodHeader(), claims, seed(1))), gateway, noon()); err != nil {
		t.Error(err)
	}
}
