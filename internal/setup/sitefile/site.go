package sitefile

import (
	"time"

	"gatehouse/internal/site"
)

// Site is what a site file states: the accounts, stations and grants that a
// gateway is to have. What the file leaves out is left as it is on the gateway.
// Secrets stand in it in clear text, so it is never logged.
type Site struct {
	TimeZone string // an IANA name such as "Europe/Berlin"; empty: not stated
	Accounts []Account
	Stations []Station
	Grants   []Grant
}

// Account is one [[account]] of a site file.
type Account struct {
	Email    site.Email
	Password site.Secret // empty: not stated
	Admin    *bool       // nil: not stated
}

// Station is one [[station]] of a site file.
type Station struct {
	ID     site.StationID
	Name   *string     // nil: not stated
	Locks  int         // number of locks; 0: not stated
	Secret site.Secret // the MQTT password; empty: not stated
	Token  site.Secret // the station token; empty: not stated
}

// Grant is one [[grant]] of a site file: the same terms for several stations. It
// states a grant as a whole, so a bound that is left out is no bound.
type Grant struct {
	Account  site.Email
	Stations []site.StationID
	From     time.Time // zero: from ever
	Until    time.Time // zero: for ever
	Hours    site.Schedule
}

// Options say how a site is applied.
type Options struct {
	DryRun bool // only say what would change
	Prune  bool // remove accounts, stations and grants that the site does not name
}

// Change is one thing that applying a site did, or would do.
type Change struct {
	Kind string // a constant word: "station-added", "granted", …
	What string // for people; never a secret
}

// Result is what applying a site did: every change in the order accounts,
// stations, grants, and what was issued for the things that it made. It holds
// secrets in clear text.
type Result struct {
	Changes  []Change
	Accounts []IssuedAccount
	Stations []IssuedStation
}

// IssuedAccount is an account that was made.
type IssuedAccount struct {
	ID       site.AccountID
	Email    site.Email
	Password site.Secret // empty unless it was generated
}

// IssuedStation is a station that was made, with its credentials.
type IssuedStation struct {
	ID     site.StationID
	Token  site.Secret
	Secret site.Secret
}
