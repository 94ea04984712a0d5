package sitefile

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"time"

	"gatehouse/internal/site"
)

// Site is what a site file states: the accounts, stations, groups, holidays and grants that
// a gateway is to have. What the file leaves out stays as it is on the gateway.
//
// Its JSON form is that of the admin API and has the secrets in clear text; every other
// printing redacts them.
type Site struct {
	File     string    `json:"file,omitempty"`     // what problems call it; "" where there is no file
	TimeZone string    `json:"timezone,omitempty"` // an IANA name such as "Europe/Berlin"; "": not stated
	Accounts []Account `json:"accounts,omitempty"`
	Stations []Station `json:"stations,omitempty"`
	Groups   []Group   `json:"groups,omitempty"`
	Holidays []Holiday `json:"holidays,omitempty"`
	Grants   []Grant   `json:"grants,omitempty"`
	Lines    Lines     `json:"lines,omitempty"`

	PasswordFiles []string `json:"-"` // the paths of those that the file names
}

// LogValue implements [slog.LogValuer]: the JSON form is not for logs.
func (s Site) LogValue() slog.Value { return slog.StringValue("redacted") }

// Account is one [[account]] of a site file.
type Account struct {
	Email    site.Email  `json:"email"`
	Password site.Secret `json:"password,omitempty"` // "": not stated
	Admin    *bool       `json:"admin,omitempty"`    // nil: not stated
	Lines    Lines       `json:"lines,omitempty"`
}

// MarshalJSON implements [json.Marshaler], with the password in clear text.
func (a Account) MarshalJSON() ([]byte, error) {
	type plain Account
	return marshal(struct {
		plain
		Password string `json:"password,omitempty"`
	}{plain(a), a.Password.Reveal()})
}

// Station is one [[station]] of a site file.
type Station struct {
	ID     site.StationID `json:"id"`
	Name   *string        `json:"name,omitempty"`   // nil: not stated
	Locks  int            `json:"locks,omitempty"`  // number of locks; 0: not stated
	Secret site.Secret    `json:"secret,omitempty"` // the MQTT password; "": not stated
	Token  site.Secret    `json:"token,omitempty"`  // the station token; "": not stated

	HomeAssistant site.HomeAssistantMode `json:"homeassistant,omitempty"` // "": not stated

	Lines Lines `json:"lines,omitempty"`
}

// MarshalJSON implements [json.Marshaler], with the secrets in clear text.
func (s Station) MarshalJSON() ([]byte, error) {
	type plain Station
	return marshal(struct {
		plain
		Secret string `json:"secret,omitempty"`
		Token  string `json:"token,omitempty"`
	}{plain(s), s.Secret.Reveal(), s.Token.Reveal()})
}

// marshal leaves < and the like as they are: escaped, they take six times the room.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return b.Bytes(), err //nolint:wrapcheck // encoding/json does
}

// Group is one [[group]] of a site file. What it leaves out stays in the group, unless
// the site is pruned.
type Group struct {
	Name site.GroupName `json:"name"`
	site.Members
	Lines Lines `json:"lines,omitempty"`
}

// Holiday is one [[holiday]] of a site file; likewise with its dates.
type Holiday struct {
	site.Holiday
	Lines Lines `json:"lines,omitempty"`
}

// Grant is one [[grant]] of a site file: the same terms for several stations. It
// states a grant as a whole: a bound that is left out is no bound.
type Grant struct {
	Account  site.Ref   `json:"account"`  // or a group of accounts
	Stations []site.Ref `json:"stations"` // or groups of stations
	site.Terms
	Lines Lines `json:"lines,omitempty"`
}

// TermsText words the terms of the grant after a comma, with times in UTC; "" is no bound.
func (g Grant) TermsText() string {
	if text := g.Text(func(t time.Time) string { return t.UTC().Format(time.RFC3339) }); text != "" {
		return ", " + text
	}
	return ""
}

// Lines are the lines of the keys that a table of a file states, and under "" that of the
// table itself. A site that did not come from a file has none.
type Lines map[string]int

// Of returns the line of a key or, where it is not stated, of the table; 0 is unknown.
func (l Lines) Of(key string) int {
	if line, stated := l[key]; stated {
		return line
	}
	return l[""]
}

// Options are how a site is applied.
type Options struct {
	DryRun bool `json:"dryRun,omitempty"` // change nothing; the result is what would come of it
	Prune  bool `json:"prune,omitempty"`  // remove what the site does not name
	Force  bool `json:"force,omitempty"`  // prune also where that removes everything, or the last administrator
}

// Result is what applying a site did: every change in the order accounts, stations,
// groups, holidays, grants, and what was issued for what was added. A dry run issues nothing that takes
// effect: a caller who wants those very secrets puts them into the site. The lists are
// empty rather than null. Secrets are in clear text.
type Result struct {
	Changes  []Change        `json:"changes"`
	Accounts []IssuedAccount `json:"accounts"`
	Stations []IssuedStation `json:"stations"`
}

// NewResult returns a result with empty lists.
func NewResult() Result {
	return Result{Changes: []Change{}, Accounts: []IssuedAccount{}, Stations: []IssuedStation{}}
}

// Change is one thing that applying a site did, or would do.
type Change struct {
	Kind string `json:"kind"` // a constant word: "station-added", "granted", …
	What string `json:"what"` // for people; never a secret
}

// IssuedAccount is an account that was added or given a new password.
type IssuedAccount struct {
	AccountID site.AccountID `json:"accountId"`
	Email     site.Email     `json:"email"`
	Password  string         `json:"password,omitempty"` // only if it was generated
}

// IssuedStation is what was issued for a station that was enrolled (contract, section 5)
// or whose secret was rotated; then StationToken is absent, because it did not change.
type IssuedStation struct {
	StationID    site.StationID `json:"stationId"`
	StationToken string         `json:"stationToken,omitempty"`
	MQTT         MQTTLogin      `json:"mqtt"`
}

// MQTTLogin is what the hardware of a station logs in with (contract, section 2).
type MQTTLogin struct {
	ClientID string `json:"clientId"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// Issue returns what is issued for a station; token is "" where it did not change.
func Issue(id site.StationID, token, secret site.Secret) IssuedStation {
	name := id.ClientID()
	return IssuedStation{
		StationID: id, StationToken: token.Reveal(),
		MQTT: MQTTLogin{ClientID: name, Username: name, Password: secret.Reveal()},
	}
}
