package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/site"
)

// Verify returns the command of a token, if a trusted key has signed it for that gateway
// and it is valid at that time; ASCII white space around the token is passed over.
// The header names the key (kid), which it may leave out where one alone is trusted. The
// error is always a [*Refusal]. It takes any bytes.
//
// A command is valid from iat until just before exp, to the fraction of a second. The
// signer's clock may be ahead by MaxAhead, and not behind.
func (r Keyring) Verify(token []byte, gateway site.GatewayID, now time.Time) (Command, error) {
	if len(token) > MaxToken {
		return Command{}, &Refusal{Reason: Oversized, Message: fmt.Sprintf("the token has more than %d bytes", MaxToken)}
	}
	v := verification{ring: r}
	err := v.parse(string(bytes.Trim(token, " \t\r\n\v\f")))
	if err == nil {
		var cmd Command
		cmd, err = v.said.command(gateway, now)
		cmd.KeyID = v.keyID
		if err == nil {
			return cmd, nil
		}
	}
	refusal := &Refusal{Reason: Malformed, ID: v.said.id(), KeyID: v.keyID, Verified: v.signed, Message: err.Error()}
	if flaw, ok := errors.AsType[*flaw](err); ok {
		refusal.Reason = flaw.reason
	}
	return Command{}, refusal
}

// errForm says that a token is none.
var errForm error = &flaw{Malformed, "the token is not a JWS in its compact form, of JSON objects of UTF-8 with each name once"}

// verification is the state while one token is verified.
type verification struct {
	ring   Keyring
	said   claims // not to be believed unless signed
	keyID  string // likewise; "" where none can be read
	signed bool

	asked   bool // whether form and algorithm were right, so that a key was asked for
	refused error
}

// parse checks the form, the algorithm and the signature. Left to itself the library
// would take other algorithms, lax base64 and unknown critical headers.
func (v *verification) parse(token string) error {
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation(), // done by claims.command, after the signature
	)
	_, err := parser.ParseWithClaims(token, &v.said, v.choose)
	switch {
	case err == nil && strings.ContainsAny(token, "\r\n"): // passed over even by a strict decoder
		return errForm
	case err == nil:
		v.signed = true
		return nil
	case v.refused != nil:
		return v.refused
	case errors.Is(err, jwt.ErrTokenMalformed):
		return errForm
	case !v.asked:
		return flawf(Algorithm, "the token is not signed with EdDSA, the one algorithm that is taken")
	}
	return flawf(BadSignature, "the signature is not that of the trusted key %s", v.keyID)
}

// choose returns the key that the header names.
func (v *verification) choose(t *jwt.Token) (any, error) {
	v.asked = true
	var key Key
	key, v.refused = v.key(t)
	return key.Public, v.refused
}

func (v *verification) key(t *jwt.Token) (Key, error) {
	if v.said.fields == nil { // the library takes null for an object
		return Key{}, flawf(Malformed, "the claims are not a JSON object")
	}
	header, err := headerOf(t.Raw)
	if err != nil {
		return Key{}, flawf(Malformed, "the header is %s", err)
	}
	if kind, stated := t.Header["typ"]; stated {
		if kind, ok := kind.(string); !ok || !strings.EqualFold(kind, "JWT") && !strings.EqualFold(kind, "JOSE") {
			return Key{}, flawf(Malformed, "the header states a typ, and it is neither JWT nor JOSE")
		}
	}
	for _, name := range []string{"crit", "b64"} { // nothing critical is understood (RFC 7515, section 4.1.11; RFC 7797)
		if _, stated := header[name]; stated {
			return Key{}, flawf(Malformed, "the header states %s, which is not understood", name)
		}
	}
	id, _ := t.Header["kid"].(string)
	if _, stated := header["kid"]; !stated && v.ring.Len() == 1 {
		id = v.ring.IDs()[0]
	}
	if !ValidKeyID(id) {
		return Key{}, flawf(UnknownKey, "the header does not name the key (kid), which it need not where one key alone is trusted")
	}
	v.keyID = id
	key, ok := v.ring.Key(id)
	if !ok {
		return Key{}, flawf(UnknownKey, "no key with the id %s is trusted: keys in [cloud] lists those that are", id)
	}
	return key, nil
}

// headerOf reads the header once more, for the names that come twice.
func headerOf(token string) (map[string]json.RawMessage, error) {
	first, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return nil, errObject
	}
	return object(text)
}
