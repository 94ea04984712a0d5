package api

import (
	"bytes"
	"encoding/base64"
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
	text := string(bytes.Trim(token, " \t\r\n\v\f"))
	var said claims // not to be believed unless signed
	var kid string
	// Left to itself the library would take other algorithms and lax base64.
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation(), // done by claims.command, after the signature
	)
	_, err := parser.ParseWithClaims(text, &said, func(t *jwt.Token) (any, error) {
		key, err := r.named(t, said)
		kid = key.ID
		return key.Public, err
	})
	found, flawed := errors.AsType[*Refusal](err)
	signed := err == nil && !strings.ContainsAny(text, "\r\n") // which even a strict decoder passes over
	switch {
	case signed:
		var cmd Command
		if cmd, found = said.command(gateway, now); found == nil {
			cmd.KeyID = kid
			return cmd, nil
		}
		found.Name = cmd.Name
	case flawed:
	case err == nil, errors.Is(err, jwt.ErrTokenMalformed):
		found = refusef(Malformed, "the token is not a JWS in its compact form, of JSON objects of UTF-8 with each name once")
	case errors.Is(err, jwt.ErrEd25519Verification):
		found = refusef(BadSignature, "the signature is not that of the trusted key %s", kid)
	default:
		found = refusef(Algorithm, "the token is not signed with EdDSA, the one algorithm that is taken")
	}
	found.KeyID, found.Verified = kid, signed
	if signed {
		found.ID = said.id()
	}
	return Command{}, found
}

// named returns the key that the header names, or its id alone and the flaw of the header.
func (r Keyring) named(t *jwt.Token, said claims) (Key, error) {
	if said.fields == nil { // the library takes null for an object
		return Key{}, refusef(Malformed, "the claims are not a JSON object")
	}
	header, _, _ := strings.Cut(t.Raw, ".")
	text, _ := base64.RawURLEncoding.DecodeString(header) // as the library did
	if _, err := object(text); err != nil {               // a name twice
		return Key{}, refusef(Malformed, "the header is %s", err)
	}
	if kind, stated := t.Header["typ"]; stated {
		if kind, ok := kind.(string); !ok || !strings.EqualFold(kind, "JWT") && !strings.EqualFold(kind, "JOSE") {
			return Key{}, refusef(Malformed, "the header states a typ, and it is neither JWT nor JOSE")
		}
	}
	for _, name := range []string{"crit", "b64"} { // nothing critical is understood (RFC 7515, section 4.1.11; RFC 7797)
		if _, stated := t.Header[name]; stated {
			return Key{}, refusef(Malformed, "the header states %s, which is not understood", name)
		}
	}
	id, _ := t.Header["kid"].(string)
	if _, stated := t.Header["kid"]; !stated && r.Len() == 1 {
		id = r.IDs()[0]
	}
	if !ValidKeyID(id) {
		return Key{}, refusef(UnknownKey, "the header does not name the key (kid), which it need not where one key alone is trusted")
	}
	key, ok := r.Key(id)
	if !ok {
		return key, refusef(UnknownKey, "no key with the id %s is trusted: keys in [cloud] lists those that are", id)
	}
	return key, nil
}
