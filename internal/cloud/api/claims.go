package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/site"
)

// claims are the claims of a token as it states them. They are judged here and not by the
// library, which has one error for several reasons.
type claims struct {
	jwt.RegisteredClaims // of which nothing is used
	fields               map[string]json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *claims) UnmarshalJSON(data []byte) (err error) {
	c.fields, err = object(data)
	return err
}

// errObject refuses a text that is not one object which every reader understands alike.
var errObject = errors.New("not a JSON object of UTF-8 with each name once")

// object decodes one object. Names are case-sensitive, and none may occur twice: readers
// choose differently between two (RFC 7519, section 4).
func object(data []byte) (map[string]json.RawMessage, error) {
	in := json.NewDecoder(bytes.NewReader(data))
	if start, err := in.Token(); err != nil || start != json.Delim('{') || !utf8.Valid(data) {
		return nil, errObject
	}
	fields := make(map[string]json.RawMessage)
	for in.More() {
		token, err := in.Token()
		name, ok := token.(string)
		_, twice := fields[name]
		if err != nil || !ok || twice {
			return nil, errObject
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, errObject
		}
		fields[name] = value
	}
	return fields, nil
}

// flaw is why claims are refused.
type flaw struct {
	reason  Reason
	message string
}

// Error returns the message.
func (f *flaw) Error() string { return f.message }

func flawf(reason Reason, format string, args ...any) error {
	return &flaw{reason, fmt.Sprintf(format, args...)}
}

// command judges the claims, in the order of the contract: whose it is, when it holds,
// which it is, and what it asks for.
func (c *claims) command(gateway site.GatewayID, now time.Time) (cmd Command, err error) {
	cmd.Gateway = gateway
	if err := c.checkAudience(gateway); err != nil {
		return cmd, err
	}
	if cmd.IssuedAt, cmd.Expires, err = c.times(now); err != nil {
		return cmd, err
	}
	if cmd.ID, err = c.text("jti"); err != nil {
		return cmd, err
	}
	if !validID(cmd.ID) {
		return cmd, flawf(Malformed, "its jti is not 1 to %d printable ASCII characters without quotes and backslashes", MaxID)
	}
	if cmd.Name, err = c.text("cmd"); err != nil {
		return cmd, err
	}
	if cmd.Name != Unlock {
		return cmd, flawf(UnknownCommand, "its cmd is not %q, the one command that there is", Unlock)
	}
	if cmd.Station, cmd.Lock, err = c.door(); err != nil {
		return cmd, err
	}
	if cmd.Actor, err = c.text("actor"); err == nil && !validActor(cmd.Actor) {
		err = flawf(Malformed, "its actor is not 1 to %d printable characters", MaxActor)
	}
	return cmd, err
}

// field returns a claim as it is written; it is missing when it is null.
func (c *claims) field(name string) (json.RawMessage, error) {
	raw := c.fields[name]
	if raw == nil || string(raw) == "null" || string(raw) == `""` {
		return nil, flawf(MissingClaim, "it does not state %s", name)
	}
	return raw, nil
}

func (c *claims) text(name string) (text string, err error) {
	raw, err := c.field(name)
	if err != nil {
		return "", err
	}
	if json.Unmarshal(raw, &text) != nil {
		return "", flawf(Malformed, "its %s is not a text", name)
	}
	return text, nil
}

// id returns the jti where one can be read, or "".
func (c *claims) id() string {
	if id, err := c.text("jti"); err == nil && validID(id) {
		return id
	}
	return ""
}

// checkAudience looks for the gateway in aud: a text or a list of texts (RFC 7519,
// section 4.1.3).
func (c *claims) checkAudience(gateway site.GatewayID) error {
	raw, err := c.field("aud")
	if err != nil {
		return err
	}
	var one string
	var many []string
	if json.Unmarshal(raw, &one) == nil {
		many = []string{one}
	} else if json.Unmarshal(raw, &many) != nil {
		return flawf(Malformed, "its aud is neither a text nor a list of texts")
	}
	if gateway == "" || !slices.Contains(many, string(gateway)) {
		return flawf(WrongAudience, "its aud does not name this gateway, %s", gateway)
	}
	return nil
}

// times judges iat, exp and nbf. How far exp may lie ahead follows from the two bounds
// on iat and on the lifetime.
func (c *claims) times(now time.Time) (issued, expires time.Time, err error) {
	if expires, err = c.time("exp"); err != nil {
		return issued, expires, err
	}
	if issued, err = c.time("iat"); err != nil {
		return issued, expires, err
	}
	begins := issued
	if _, stated := c.fields["nbf"]; stated {
		notBefore, err := c.time("nbf")
		if err != nil {
			return issued, expires, err
		}
		if notBefore.After(begins) {
			begins = notBefore
		}
	}
	ahead := now.Add(MaxAhead)
	switch lifetime := expires.Sub(issued); {
	case !now.Before(expires):
		err = flawf(Expired, "it expired at %s, and the gateway's clock reads %s", site.At(expires), site.At(now))
	case begins.After(ahead):
		err = flawf(NotYetValid, "it holds from %s, and the gateway's clock reads %s", site.At(begins), site.At(now))
	case lifetime > MaxLifetime:
		err = flawf(Lifetime, "it lives %s, from iat to exp, and may live %s at most", lifetime, MaxLifetime)
	case lifetime <= 0:
		err = flawf(Lifetime, "it expires before it is issued")
	}
	return issued, expires, err
}

// lastSecond is the end of the year 9999, the last that timestamps can state.
const lastSecond = 253402300799

// time reads a NumericDate: seconds since 1970, perhaps with a fraction (RFC 7519,
// section 2).
func (c *claims) time(name string) (time.Time, error) {
	raw, err := c.field(name)
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || seconds < 0 || seconds > lastSecond {
		return time.Time{}, flawf(Malformed, "its %s is not a number of seconds since 1970", name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)).UTC(), nil
}

// door reads station and lock, each a number or a text.
func (c *claims) door() (station site.StationID, lock site.LockID, err error) {
	name, err := c.name("station")
	if err != nil {
		return 0, 0, err
	}
	if station, err = site.ParseStationID(name); err != nil {
		return 0, 0, flawf(UnknownStation, "its station is none: %s", err)
	}
	if name, err = c.name("lock"); err != nil {
		return 0, 0, err
	}
	if lock, err = site.ParseLockID(name); err != nil {
		return 0, 0, flawf(UnknownLock, "its lock is none: %s", err)
	}
	return station, lock, nil
}

// name reads a text or a number as a text.
func (c *claims) name(name string) (string, error) {
	raw, err := c.field(name)
	if err != nil {
		return "", err
	}
	switch {
	case raw[0] == '"':
		return c.text(name)
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return string(raw), nil
	}
	return "", flawf(Malformed, "its %s is neither a number nor a text", name)
}
