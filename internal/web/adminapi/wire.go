package adminapi

import (
	"net/netip"

	"gatehouse/internal/health"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// The types of this file are the JSON of the admin API, /admin/v1. Fields that
// carry a secret are plain strings, because here they must appear in clear text:
// values of these types go to the administrator who asked and never into a log.

// Status is the answer of GET /admin/v1/status.
type Status struct {
	Version     string             `json:"version"`
	GatewayID   site.GatewayID     `json:"gatewayId"`
	Name        string             `json:"name"`            // what it is called on the network, without any domain
	Found       string             `json:"found,omitempty"` // as which the responder of this machine has published it, without ".local"; absent where none runs. It may have chosen another than Name
	Boot        site.BootID        `json:"boot"`
	Started     site.Timestamp     `json:"started"`
	Ready       bool               `json:"ready"` // whether doors can be opened
	Conditions  []health.Condition `json:"conditions"`
	Clock       ClockStatus        `json:"clock"`
	Listeners   []Listener         `json:"listeners"`
	Addresses   []netip.Addr       `json:"addresses"` // under which others reach this machine
	Stations    StationCount       `json:"stations"`
	Accounts    int                `json:"accounts"`
	Sessions    int                `json:"sessions"`
	Journal     JournalSize        `json:"journal"`
	Data        string             `json:"data"`                  // the data directory
	Certificate *CertificateStatus `json:"certificate,omitempty"` // absent without TLS
	Memory      MemoryStatus       `json:"memory"`
	TimeZone    string             `json:"timeZone"`        // in which the hours of grants are meant
	Cloud       *CloudStatus       `json:"cloud,omitempty"` // absent without a cloud
	Update      site.UpdateStatus  `json:"update"`          // which versions of the system there are, and how the last update ended
}

// CloudStatus is the state of the cloud link.
type CloudStatus = site.CloudStatus

// CertificateStatus is the certificate that the TLS listeners show.
type CertificateStatus struct {
	Names       []string       `json:"names"` // and addresses that it is valid for
	NotAfter    site.Timestamp `json:"notAfter"`
	Fingerprint string         `json:"fingerprint"` // its SHA-256, as browsers show it
	// AuthorityFingerprint is that of the gateway's own authority; empty where another
	// one signed the certificate.
	AuthorityFingerprint string `json:"authorityFingerprint,omitempty"`
	Own                  bool   `json:"own"` // whether the gateway issued it
}

// MemoryStatus is the memory of the process, in bytes.
type MemoryStatus struct {
	Used  uint64 `json:"used"`  // resident; 0 where the system does not say
	Limit uint64 `json:"limit"` // what the machine has, or the service may have; likewise
}

// ClockStatus is the clock in a status.
type ClockStatus = site.ClockStatus

// Clock is the answer of GET /admin/v1/clock, and of POST …/clock/accept and
// …/clock/reset: the state of the gateway's clock after the request.
type Clock = site.ClockReport

// Listener is one address on which the gateway listens; Name is "http", "mqtt",
// "mqtts" or the like.
type Listener struct {
	Name    string `json:"name"`
	Address string `json:"address"` // host:port as bound, never port 0
	TLS     bool   `json:"tls"`
}

// StationCount counts the stations.
type StationCount struct {
	Enrolled int `json:"enrolled"`
	Online   int `json:"online"`
}

// JournalSize is the size of the journal.
type JournalSize = journal.Size

// Account is an account as GET /admin/v1/accounts lists it under "accounts", sorted by
// e-mail; its password is never shown.
type Account = site.Account

// NewAccount is the body of POST /admin/v1/accounts. Without a password one is
// generated.
type NewAccount struct {
	Email    string `json:"email"`
	Password string `json:"password,omitempty"`
	Admin    bool   `json:"admin,omitempty"`
}

// NewPassword is the body of PUT /admin/v1/accounts/{email}/password. Without a
// password one is generated.
type NewPassword struct {
	Password    string `json:"password,omitempty"`
	Present     string `json:"present,omitempty"`     // the password until now, of the caller's own account
	EndSessions bool   `json:"endSessions,omitempty"` // all of the account but the caller's
}

// ChangedPassword is the answer.
type ChangedPassword struct {
	IssuedAccount
	Ended int `json:"ended"` // how many sessions ended
}

// AccountPatch is the body of PATCH /admin/v1/accounts/{email}; what is absent
// stays as it is.
type AccountPatch struct {
	Admin *bool `json:"admin,omitempty"`
}

// IssuedAccount is what was issued for an account that was added or given a new
// password, shown this once (contract, section 5).
type IssuedAccount = sitefile.IssuedAccount

// Session is one login of an account, as GET /admin/v1/accounts/{email}/sessions lists it
// under "sessions".
type Session struct {
	site.Session
	Current bool `json:"current"` // whether the request came with it
}

// Revoked is the answer of POST /admin/v1/accounts/{email}/revoke.
type Revoked struct {
	Ended int `json:"ended"` // how many sessions ended
}

// AllEnded is the answer of POST /admin/v1/sessions/end-all: what has ended.
type AllEnded struct {
	Sessions int `json:"sessions"`
	Tokens   int `json:"tokens"` // those of integrations
}

// Station is a station as GET /admin/v1/stations lists it under "stations", sorted by id:
// the Station object of /v1 with what an administrator sees besides. Its token and its
// secret are never shown.
type Station struct {
	site.StationState
	Name     string         `json:"name"`
	Firmware string         `json:"firmware,omitempty"` // absent until reported
	Enrolled site.Timestamp `json:"enrolled"`

	Subscribed *bool `json:"subscribed,omitempty"` // connected and subscribed to its commands; only in GET of one station

	HomeAssistant site.HomeAssistantMode `json:"homeassistant"`
}

// Battery is the answer of GET /admin/v1/stations/{id}/battery.
type Battery struct {
	Points   []BatteryPoint `json:"points"`   // the oldest first, of about 400 days
	DaysLeft *int           `json:"daysLeft"` // until it is low; null where the points do not show that
}

// BatteryPoint is the least voltage that a station reported on one day.
type BatteryPoint struct {
	Day   string  `json:"day"` // "2026-11-01", in UTC
	Volts float64 `json:"volts"`
}

// NewStation is the body of POST /admin/v1/stations. A secret or a token that is
// absent is generated.
type NewStation struct {
	StationID site.StationID `json:"stationId"`
	Name      string         `json:"name,omitempty"`
	Locks     int            `json:"locks"`
	Secret    string         `json:"secret,omitempty"`
	Token     string         `json:"token,omitempty"`
}

// StationPatch is the body of PATCH /admin/v1/stations/{id}; what is absent stays
// as it is.
type StationPatch struct {
	Name  *string `json:"name,omitempty"`
	Locks *int    `json:"locks,omitempty"`

	HomeAssistant *site.HomeAssistantMode `json:"homeassistant,omitempty"`
}

// IssuedStation is what was issued for a station that was enrolled (contract, section 5)
// or whose secret was rotated, shown this once.
type IssuedStation = sitefile.IssuedStation

// MQTTLogin is what the hardware of a station logs in with.
type MQTTLogin = sitefile.MQTTLogin

// Grant lets an account or a group of accounts use a station or a group of stations. GET
// /admin/v1/grants lists them under "grants": those of accounts, sorted by e-mail, then
// those of groups.
type Grant struct {
	Email        site.Email     `json:"email,omitempty"`        // either this
	AccountGroup site.GroupName `json:"accountGroup,omitempty"` // or this
	StationID    site.StationID `json:"stationId,omitempty"`    // either this
	StationGroup site.GroupName `json:"stationGroup,omitempty"` // or this
	GrantTerms
}

// Who returns for whom the grant is.
func (g Grant) Who() site.Ref { return site.Ref{Email: g.Email, Group: g.AccountGroup} }

// What returns for what the grant is.
func (g Grant) What() site.Ref { return site.Ref{Station: g.StationID, Group: g.StationGroup} }

// GrantTerms is the body of PUT /admin/v1/grants/{who}/{what}: when the grant holds. A
// bound that is null or absent, or empty hours, are no bound. who is an e-mail address or
// the name of a group of accounts, what a station id or the name of a group of stations.
type GrantTerms = site.Terms

// Granted is the answer of PUT /admin/v1/grants/{who}/{what}.
type Granted struct {
	Grant
	Changed bool `json:"changed"` // false: it was like that already
}

// Token is an integration token as GET /admin/v1/tokens lists it under "tokens", sorted by
// name; its text is never shown again. When it was used last is accurate to an hour over a
// restart.
type Token = site.Token

// NewToken is the body of POST /admin/v1/tokens.
type NewToken struct {
	Name   string         `json:"name"`
	Scopes site.Scope     `json:"scopes"`
	Until  site.Timestamp `json:"until,omitzero"`
}

// IssuedToken is a token that was added, with its text, shown this once.
type IssuedToken struct {
	Token
	Text string `json:"token"`
}

// Members are accounts or stations, in a request not both.
type Members = site.Members

// Group is a group as GET /admin/v1/groups lists it under "groups", sorted by name, and the
// answer of PATCH /admin/v1/groups/{group}.
type Group struct {
	Name site.GroupName `json:"name"`
	Members
}

// GroupPatch is the body of PATCH /admin/v1/groups/{group}. A group that is not there is
// added where Add states accounts or stations, which may be none.
type GroupPatch struct {
	Add    Members `json:"add,omitzero"`
	Remove Members `json:"remove,omitzero"`
}

// Holidays are the holidays that GET /admin/v1/holidays lists, sorted by name. POST
// /admin/v1/holidays answers with those that it has changed.
type Holidays struct {
	Holidays []site.Holiday `json:"holidays"`
}

// NewHolidays is the body of POST /admin/v1/holidays: a holiday, or a calendar of them.
type NewHolidays struct {
	Name  string       `json:"name,omitempty"`
	Dates []site.Dates `json:"dates,omitempty"`
	ICS   string       `json:"ics,omitempty"` // the text of an iCalendar file (RFC 5545)
}

// Unlocked is the answer of POST /admin/v1/stations/{id}/locks/{lock}/unlock.
type Unlocked struct {
	CommandID site.CommandID `json:"commandId"`
	Outcome   site.Outcome   `json:"outcome"`
	Message   string         `json:"message,omitempty"` // where it says more than the outcome
	Success   bool           `json:"success"`
}

// ApplyRequest is the body of POST /admin/v1/apply.
type ApplyRequest struct {
	Site sitefile.Site `json:"site"`
	sitefile.Options
}

// BackupRequest is the body of POST /admin/v1/backup, whose answer is the encrypted file.
type BackupRequest struct {
	Passphrase string `json:"passphrase"`         // 16 characters or more
	Password   string `json:"password,omitempty"` // that of the account; the socket needs none
}

// Restarting is the answer of POST /admin/v1/restart. The status has another boot once the
// gateway has been started again.
type Restarting struct {
	Boot site.BootID `json:"boot"` // the one that ends
}

// Applied is the answer of POST /admin/v1/apply.
type Applied = sitefile.Result

// Update is the answer of GET /admin/v1/update, and of the requests that ask for one.
type Update struct {
	site.UpdateStatus
	Sentences []string `json:"sentences"` // all of it, for people
}

// NewUpdate is the body of POST /admin/v1/update.
type NewUpdate struct {
	URL    string         `json:"url"`              // https://HOST/PATH
	SHA256 string         `json:"sha256,omitempty"` // 64 digits, of the file
	At     site.Timestamp `json:"at,omitzero"`      // when the board restarts into it; absent: when it is written
}

// JournalStart is the line of GET /admin/v1/journal?tail=N before the records that are
// there.
type JournalStart struct {
	kit.WatchStart
	Last uint64 `json:"last"` // every record up to this seq has been looked at
}

// Database is the answer of GET /admin/v1/database: the state of the gateway's database. No
// other process can read it while the gateway has it open.
type Database = site.DatabaseState

// Verdict is the answer of GET /admin/v1/journal/verify.
type Verdict struct {
	Sound bool `json:"sound"`
	journal.Verdict

	// Witnesses is filled in by the command line, which knows them.
	Witnesses []journal.Testimony `json:"witnesses,omitempty"`
}

// Witnesses is the body of POST /admin/v1/journal/witnesses: heads of the journal's chain
// as they were kept elsewhere. The answer has one testimony for each under "witnesses", in
// their order.
type Witnesses struct {
	Witnesses []journal.Witness `json:"witnesses"`
}
