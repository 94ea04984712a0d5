package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/board/updates"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// claims are the claims of a token as it states them. They are judged here and not by the
// library, which has one error for several reasons.
type claims struct {
	jwt.RegisteredClaims // of which nothing is used
	fields               map[string]json.RawMessage
	flaw                 *Refusal // the first that was found
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

// refusef returns why a token is refused, without what it states of its id and key.
func refusef(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// command judges the claims, in the order of the contract: whose it is, when it holds,
// which it is, and what it asks for. How far exp may lie ahead follows from the bounds on
// iat and on the lifetime.
func (c *claims) command(gateway site.GatewayID, now time.Time) (Command, *Refusal) {
	audience := claim[jwt.ClaimStrings](c, "aud")
	c.demand(gateway != "" && slices.Contains(audience, string(gateway)), WrongAudience, "its aud does not name this gateway, %s", gateway)
	cmd := Command{Gateway: gateway, Expires: c.time("exp"), IssuedAt: c.time("iat")}
	begins := cmd.IssuedAt
	if _, stated := c.fields["nbf"]; stated {
		if notBefore := c.time("nbf"); notBefore.After(begins) {
			begins = notBefore
		}
	}
	lifetime := cmd.Expires.Sub(cmd.IssuedAt)
	c.demand(now.Before(cmd.Expires), Expired, "it expired at %s, and the gateway's clock reads %s", site.At(cmd.Expires), site.At(now))
	c.demand(!begins.After(now.Add(MaxAhead)), NotYetValid, "it holds from %s, and the gateway's clock reads %s", site.At(begins), site.At(now))
	c.demand(lifetime > 0 && lifetime <= MaxLifetime, Lifetime, "it lives %s, from iat to exp, and may live %s at most", lifetime, MaxLifetime)

	cmd.ID = claim[string](c, "jti")
	c.demand(validID(cmd.ID), Malformed, "its jti is not 1 to %d printable ASCII characters without quotes and backslashes", MaxID)
	cmd.Name = claim[string](c, "cmd")
	switch cmd.Name {
	case Unlock:
		c.unlock(&cmd)
	case Update:
		c.update(&cmd)
	default:
		c.demand(false, UnknownCommand, "its cmd is neither %q nor %q", Unlock, Update)
	}
	cmd.Actor = claim[string](c, "actor")
	c.demand(validActor(cmd.Actor), Malformed, "its actor is not 1 to %d printable characters", MaxActor)
	return cmd, c.flaw
}

// unlock judges what an unlock states.
func (c *claims) unlock(cmd *Command) {
	var err error
	cmd.Station, err = site.ParseStationID(c.name("station"))
	c.demand(err == nil, UnknownStation, "its station is none: %v", err)
	cmd.Lock, err = site.ParseLockID(c.name("lock"))
	c.demand(err == nil, UnknownLock, "its lock is none: %v", err)
}

// sumForm is the form of a SHA-256.
var sumForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// update judges what an update states. No sentence has its URL, which may hold a secret.
func (c *claims) update(cmd *Command) {
	for _, name := range []string{"station", "lock"} {
		_, stated := c.fields[name]
		c.demand(!stated, Malformed, "it states a %s, and an update has none", name)
	}
	cmd.URL = claim[string](c, "url")
	if err := updates.CheckURL(cmd.URL); err != nil {
		c.demand(false, Malformed, "its url cannot be used. %s", fault.Sentence(err))
	}
	cmd.SHA256 = strings.ToLower(claim[string](c, "sha256"))
	c.demand(sumForm.MatchString(cmd.SHA256), Malformed, "its sha256 is not 64 hex digits")
	if _, stated := c.fields["window"]; !stated {
		return
	}
	seconds := claim[float64](c, "window")
	fits := seconds >= 0 && seconds <= MaxWindow.Seconds() && seconds == math.Trunc(seconds)
	if c.demand(fits, Malformed, "its window is not a whole number of seconds, 0 to %.0f", MaxWindow.Seconds()); fits {
		cmd.Window = time.Duration(seconds) * time.Second
	}
}

// demand notes a flaw where something does not hold, unless there is one before it.
func (c *claims) demand(holds bool, reason Reason, format string, args ...any) {
	if !holds && c.flaw == nil {
		c.flaw = refusef(reason, format, args...)
	}
}

// claim reads a claim. It is missing where it is null or an empty text.
func claim[T any](c *claims, name string) (value T) {
	raw := c.fields[name]
	c.demand(raw != nil && string(raw) != "null" && string(raw) != `""`, MissingClaim, "it does not state %s", name)
	if raw != nil {
		c.demand(json.Unmarshal(raw, &value) == nil, Malformed, "its %s is of another type than it has to be", name)
	}
	return value
}

// id returns the jti where one can be read, or "".
func (c *claims) id() string {
	if id := claim[string](&claims{fields: c.fields}, "jti"); validID(id) {
		return id
	}
	return ""
}

// lastSecond is the end of the year 9999, the last that timestamps can state.
const lastSecond = 253402300799

// time reads a NumericDate: seconds since 1970, perhaps with a fraction (RFC 7519,
// section 2).
func (c *claims) time(name string) time.Time {
	seconds := claim[float64](c, name)
	c.demand(seconds >= 0 && seconds <= lastSecond, Malformed, "its %s is not a number of seconds since 1970", name)
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)).UTC()
}

// name reads a text or a number as a text.
func (c *claims) name(name string) string {
	var number json.Number
	if raw := c.fields[name]; raw != nil && json.Unmarshal(raw, &number) == nil && number != "" {
		return number.String()
	}
	return claim[string](c, name)
}
