package api

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/site"
)

const (
	// MaxToken is the longest token that is looked at, in bytes.
	MaxToken = 4096
	// MaxLifetime is how long a command may live, from iat to exp (contract, section 3).
	MaxLifetime = 60 * time.Second
	// MaxAhead is how far the signer's clock may be ahead of the gateway's.
	MaxAhead = 5 * time.Second
	// MaxID and MaxActor bound the jti, in bytes, and the actor, in characters.
	MaxID    = 128
	MaxActor = 128
	// Unlock is the one command that is carried out (claim cmd).
	Unlock = "unlock"
)

// Command is a signed command.
type Command struct {
	ID       string         // jti: 1 to MaxID printable ASCII characters without quotes and backslashes; never used twice
	Gateway  site.GatewayID // aud: the gateway that is to carry it out
	Name     string         // cmd: Unlock
	Station  site.StationID
	Lock     site.LockID
	Actor    string    // who asked for it, as the signer states: 1 to MaxActor characters
	IssuedAt time.Time // iat
	Expires  time.Time // exp
	KeyID    string    // kid: which of the trusted keys signed it
}

// Sign returns the token of a command, whose KeyID is k's. Times are cut to seconds. It
// refuses what no gateway would accept; an unknown name alone is signed, because it tests a
// link without opening anything.
func (k PrivateKey) Sign(c Command) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"jti": c.ID, "aud": string(c.Gateway), "cmd": c.Name, "station": int64(c.Station), "lock": c.Lock.String(),
		"actor": c.Actor, "iat": c.IssuedAt.Unix(), "exp": c.Expires.Unix(),
	})
	token.Header["kid"] = k.id
	text, err := token.SignedString(k.key)
	if err != nil {
		return "", fmt.Errorf("signing a command: %w", err)
	}
	ring := Keyring{keys: map[string]ed25519.PublicKey{k.id: k.public()}}
	_, err = ring.Verify([]byte(text), c.Gateway, c.IssuedAt)
	if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Reason != UnknownCommand {
		return "", errors.New("signing a command: " + refusal.Message)
	}
	return text, nil
}

func validID(id string) bool {
	return id != "" && len(id) <= MaxID && !strings.ContainsFunc(id, func(r rune) bool {
		return r < ' ' || r > '~' || r == '"' || r == '\'' || r == '\\'
	})
}

// validActor takes what names are written with, in any language; nothing that breaks lines,
// hides or turns the writing around where it is shown.
func validActor(actor string) bool {
	unfit := func(r rune) bool { return !unicode.IsPrint(r) && !unicode.In(r, unicode.Zs, unicode.Join_Control) }
	return actor != "" && utf8.ValidString(actor) && utf8.RuneCountInString(actor) <= MaxActor && !strings.ContainsFunc(actor, unfit)
}
