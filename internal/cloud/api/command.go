package api

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/board/updates"
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
	// MaxWindow is the longest window of an update.
	MaxWindow = updates.MaxAhead
)

// The commands that are carried out (claim cmd).
const (
	Unlock = "unlock" // opens a lock
	Update = "update" // has the gateway update its system
)

// Command is a signed command.
type Command struct {
	ID       string         // jti: 1 to MaxID printable ASCII characters without quotes and backslashes; never used twice
	Gateway  site.GatewayID // aud: the gateway that is to carry it out
	Name     string         // cmd: Unlock or Update
	Actor    string         // who asked for it, as the signer states: 1 to MaxActor characters
	IssuedAt time.Time      // iat
	Expires  time.Time      // exp
	KeyID    string         // kid: which of the trusted keys signed it

	// Of Unlock.
	Station site.StationID
	Lock    site.LockID

	// Of Update.
	URL    string        // url: where the update is, https
	SHA256 string        // sha256: of the update, 64 hex digits
	Window time.Duration // window: from IssuedAt on, in which the gateway restarts at a moment of its own; whole seconds, 0 is none
}

// Moment returns when the gateway restarts into an update: in a window, a moment that
// follows from the gateway's id and that of the command, so that those of many gateways are
// spread evenly. Zero without a window: as soon as it can.
func (c Command) Moment() time.Time {
	if c.Window <= 0 {
		return time.Time{}
	}
	sum := sha256.Sum256([]byte(string(c.Gateway) + "\n" + c.ID))
	into, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(c.Window))
	return c.IssuedAt.Add(time.Duration(into)) //nolint:gosec // less than the window
}

// Sign returns the token of a command, whose KeyID is k's. Times are cut to seconds. It
// refuses what no gateway would accept; an unknown name alone is signed, because it tests a
// link without opening anything.
func (k PrivateKey) Sign(c Command) (string, error) {
	states := jwt.MapClaims{
		"jti": c.ID, "aud": string(c.Gateway), "cmd": c.Name, "actor": c.Actor, "iat": c.IssuedAt.Unix(), "exp": c.Expires.Unix(),
	}
	if c.Name == Update {
		states["url"], states["sha256"] = c.URL, c.SHA256
		if c.Window != 0 {
			states["window"] = c.Window.Seconds()
		}
	} else {
		states["station"], states["lock"] = int64(c.Station), c.Lock.String()
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, states)
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

// validActor accepts a readable name.
func validActor(actor string) bool {
	return actor != "" && utf8.RuneCountInString(actor) <= MaxActor && site.Readable(actor)
}
