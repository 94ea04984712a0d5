// Package client speaks the admin API of a running gateway over its Unix socket.
// The command line uses it; it decides nothing and prints nothing.
//
// Every error is a [fault.Error]: what the gateway refused comes back with the
// gateway's own sentence and a kind mapped back from the status; a gateway that
// does not answer is [fault.Unavailable] with a sentence that says what to do. A
// context that ended comes back as the context's own error.
package client

import (
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/kit"
)

// Client calls one gateway. Safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// New returns a client of the gateway that listens on socket, the path of its
// admin.sock. It does not connect yet.
func New(socket string) *Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status returns the state of the gateway.
func (c *Client) Status(ctx context.Context) (adminapi.Status, error) {
	return get[adminapi.Status](ctx, c, "/status")
}

// Accounts lists the accounts, sorted by e-mail.
func (c *Client) Accounts(ctx context.Context) ([]adminapi.Account, error) {
	return list[adminapi.Account](ctx, c, "/accounts", "accounts")
}

// AddAccount adds an account; the answer holds a password only if none was given.
// Errors: [fault.Invalid], [fault.Conflict].
func (c *Client) AddAccount(ctx context.Context, a adminapi.NewAccount) (adminapi.IssuedAccount, error) {
	return call[adminapi.IssuedAccount](ctx, c, http.MethodPost, "/accounts", a)
}

// SetPassword sets a password of an account; an empty one is generated, and only
// then does the answer hold it. Errors: [fault.NotFound], [fault.Invalid].
func (c *Client) SetPassword(ctx context.Context, email string, p adminapi.NewPassword) (adminapi.ChangedPassword, error) {
	return call[adminapi.ChangedPassword](ctx, c, http.MethodPut, accountPath(email, "/password"), p)
}

// SetAdmin sets whether an account is an administrator. Error: [fault.NotFound].
func (c *Client) SetAdmin(ctx context.Context, email string, admin bool) (adminapi.Account, error) {
	return call[adminapi.Account](ctx, c, http.MethodPatch, accountPath(email, ""), adminapi.AccountPatch{Admin: &admin})
}

// RemoveAccount removes an account with its sessions and grants. Error:
// [fault.NotFound].
func (c *Client) RemoveAccount(ctx context.Context, email string) error {
	return remove(ctx, c, accountPath(email, ""))
}

// Sessions lists the live sessions of an account. Error: [fault.NotFound].
func (c *Client) Sessions(ctx context.Context, email string) ([]adminapi.Session, error) {
	return list[adminapi.Session](ctx, c, accountPath(email, "/sessions"), "sessions")
}

// Revoke ends every session of an account and returns how many there were. Error:
// [fault.NotFound].
func (c *Client) Revoke(ctx context.Context, email string) (adminapi.Revoked, error) {
	return call[adminapi.Revoked](ctx, c, http.MethodPost, accountPath(email, "/revoke"), nil)
}

// EndAllSessions ends every session and integration token of everybody, and has the gateway
// make a new key for access tokens.
func (c *Client) EndAllSessions(ctx context.Context) (adminapi.AllEnded, error) {
	return call[adminapi.AllEnded](ctx, c, http.MethodPost, "/sessions/end-all", nil)
}

// Stations lists the stations, sorted by id.
func (c *Client) Stations(ctx context.Context) ([]adminapi.Station, error) {
	return list[adminapi.Station](ctx, c, "/stations", "stations")
}

// Station shows one station. Error: [fault.NotFound].
func (c *Client) Station(ctx context.Context, id site.StationID) (adminapi.Station, error) {
	return get[adminapi.Station](ctx, c, stationPath(id, ""))
}

// AddStation enrols a station and returns its credentials, which are shown this
// once. Errors: [fault.Invalid], [fault.Conflict].
func (c *Client) AddStation(ctx context.Context, s adminapi.NewStation) (adminapi.IssuedStation, error) {
	return call[adminapi.IssuedStation](ctx, c, http.MethodPost, "/stations", s)
}

// UpdateStation changes the name or the number of locks of a station and returns it
// as it is then. Errors: [fault.NotFound], [fault.Invalid].
func (c *Client) UpdateStation(ctx context.Context, id site.StationID, p adminapi.StationPatch) (adminapi.Station, error) {
	return call[adminapi.Station](ctx, c, http.MethodPatch, stationPath(id, ""), p)
}

// Rotate issues a new secret for a station, shown this once, and ends its connection.
// Error: [fault.NotFound].
func (c *Client) Rotate(ctx context.Context, id site.StationID) (adminapi.IssuedStation, error) {
	return call[adminapi.IssuedStation](ctx, c, http.MethodPost, stationPath(id, "/rotate"), nil)
}

// RemoveStation removes a station with its grants and ends its connection. Error:
// [fault.NotFound].
func (c *Client) RemoveStation(ctx context.Context, id site.StationID) error {
	return remove(ctx, c, stationPath(id, ""))
}

// WatchLine is one line of a watch: its start, with Time and Count and no station, or a
// station as it is then, or with Removed only the id of one that is gone.
type WatchLine struct {
	kit.WatchStart
	adminapi.Station
	Removed bool `json:"removed"`
}

// Watch yields a start and every station as it is now, and then each that changes, until
// ctx ends (which yields no error), the caller stops or the gateway ends the stream (which
// yields one). After another start everything comes again.
func (c *Client) Watch(ctx context.Context) iter.Seq2[WatchLine, error] {
	return stream[WatchLine](ctx, c, "/stations/watch", true)
}

// Grants lists the grants, sorted by e-mail and station.
func (c *Client) Grants(ctx context.Context) ([]adminapi.Grant, error) {
	return list[adminapi.Grant](ctx, c, "/grants", "grants")
}

// Grant lets an account or a group, who, use a station or a group, what, or changes the
// terms on which it may. Errors: [fault.NotFound] for one of them, [fault.Invalid].
func (c *Client) Grant(ctx context.Context, who, what string, terms adminapi.GrantTerms) (adminapi.Granted, error) {
	return call[adminapi.Granted](ctx, c, http.MethodPut, grantPath(who, what), terms)
}

// Ungrant removes a grant. Error: [fault.NotFound].
func (c *Client) Ungrant(ctx context.Context, who, what string) error {
	return remove(ctx, c, grantPath(who, what))
}

// Groups lists the groups, sorted by name.
func (c *Client) Groups(ctx context.Context) ([]adminapi.Group, error) {
	return list[adminapi.Group](ctx, c, "/groups", "groups")
}

// ChangeGroup adds and removes members of a group, which is added if it is not there, and
// returns it as it is then. Errors: [fault.NotFound] for a member, or a group to remove
// from, [fault.Invalid], [fault.Conflict].
func (c *Client) ChangeGroup(ctx context.Context, name site.GroupName, p adminapi.GroupPatch) (adminapi.Group, error) {
	return call[adminapi.Group](ctx, c, http.MethodPatch, "/groups/"+url.PathEscape(string(name)), p)
}

// RemoveGroup removes a group with its grants. Error: [fault.NotFound].
func (c *Client) RemoveGroup(ctx context.Context, name site.GroupName) error {
	return remove(ctx, c, "/groups/"+url.PathEscape(string(name)))
}

// Holidays lists the holidays, sorted by name.
func (c *Client) Holidays(ctx context.Context) ([]site.Holiday, error) {
	return list[site.Holiday](ctx, c, "/holidays", "holidays")
}

// AddHolidays adds dates to a holiday, which need not be there, or the holidays of a
// calendar, and returns those that changed. Errors: [fault.Invalid], [fault.Conflict]; then
// none has changed.
func (c *Client) AddHolidays(ctx context.Context, h adminapi.NewHolidays) ([]site.Holiday, error) {
	answer, err := call[adminapi.Holidays](ctx, c, http.MethodPost, "/holidays", h)
	return answer.Holidays, err
}

// RemoveHoliday removes a holiday with all its dates. Error: [fault.NotFound].
func (c *Client) RemoveHoliday(ctx context.Context, name string) error {
	return remove(ctx, c, "/holidays/"+url.PathEscape(name))
}

// Tokens lists the integration tokens, sorted by name.
func (c *Client) Tokens(ctx context.Context) ([]adminapi.Token, error) {
	return list[adminapi.Token](ctx, c, "/tokens", "tokens")
}

// AddToken adds an integration token; the answer holds its text, which is shown this once.
// Errors: [fault.Invalid], [fault.NotFound] for a station of its scope, [fault.Conflict].
func (c *Client) AddToken(ctx context.Context, t adminapi.NewToken) (adminapi.IssuedToken, error) {
	return call[adminapi.IssuedToken](ctx, c, http.MethodPost, "/tokens", t)
}

// RemoveToken removes the integration token of that name. Error: [fault.NotFound].
func (c *Client) RemoveToken(ctx context.Context, name string) error {
	return remove(ctx, c, "/tokens/"+url.PathEscape(name))
}

// Unlock opens a lock as the administrator and waits for the outcome. A station
// that is offline or silent is an outcome, not an error. Error: [fault.NotFound].
func (c *Client) Unlock(ctx context.Context, id site.StationID, lock site.LockID) (adminapi.Unlocked, error) {
	return call[adminapi.Unlocked](ctx, c, http.MethodPost, stationPath(id, "/locks/"+lock.String()+"/unlock"), nil)
}

// Apply makes the gateway match a site, as [sitefile.ReadFile] returns it: all of it,
// or after an error none of it. Errors: [fault.Invalid], [fault.Conflict],
// [fault.Unavailable].
func (c *Client) Apply(ctx context.Context, s sitefile.Site, o sitefile.Options) (adminapi.Applied, error) {
	body := adminapi.ApplyRequest{Site: s, Options: o}
	return callWithin[adminapi.Applied](ctx, c, applyTimeout, http.MethodPost, "/apply", body)
}

// JournalQuery selects records of the journal; the zero query selects all.
type JournalQuery struct {
	After   uint64         // only records with a greater seq
	Before  uint64         // only records with a lesser seq; 0: with any
	Since   time.Time      // only records of this time or later
	Until   time.Time      // only records before this time
	Station site.StationID // 0: of all stations
	Kinds   []site.Kind    // none: of all kinds
	Limit   int            // stop after so many records; 0: no limit
	Tail    int            // only the newest so many of these records, at most 1,000; 0: all
	Follow  bool           // continue with new records as they are written
}

// Journal yields the records that a query selects, oldest first. With Follow it
// continues until ctx ends (which yields no error), the caller stops, or the gateway
// ends the stream (which yields one).
func (c *Client) Journal(ctx context.Context, q JournalQuery) iter.Seq2[site.Record, error] {
	path := url.URL{Path: "/journal", RawQuery: q.encode()}
	return func(yield func(site.Record, error) bool) {
		for r, err := range stream[site.Record](ctx, c, path.String(), q.Follow && q.Limit == 0) {
			if err == nil && r.Seq == 0 { // [adminapi.JournalStart]
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// VerifyJournal checks the hash chain of the whole journal.
func (c *Client) VerifyJournal(ctx context.Context) (adminapi.Verdict, error) {
	return callWithin[adminapi.Verdict](ctx, c, verifyTimeout, http.MethodGet, "/journal/verify", nil)
}

// Database checks the pages of the gateway's database. NotFound where the file is gone,
// or the gateway is of a version that does not have this route.
func (c *Client) Database(ctx context.Context) (adminapi.Database, error) {
	return callWithin[adminapi.Database](ctx, c, verifyTimeout, http.MethodGet, "/database", nil)
}

// Backup returns the data of the gateway as an archive in clear text (package backup):
// encrypt it before it touches a disk. Its reader finds out whether it is whole. The
// caller closes it. Errors: [fault.Throttled] while another is taken,
// [fault.Unavailable]; those of reading have the same kinds.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	limited, cancel := context.WithTimeout(ctx, backupTimeout)
	resp, err := c.send(limited, http.MethodGet, "/backup", nil) //nolint:bodyclose // download closes it
	if err != nil {
		cancel()
		return nil, c.explain(ctx, err)
	}
	return &download{body: resp.Body, cancel: cancel, explain: func(err error) error { return c.explain(ctx, err) }}, nil
}

// Update returns how updates of the system stand.
func (c *Client) Update(ctx context.Context) (adminapi.Update, error) {
	return get[adminapi.Update](ctx, c, "/update")
}

// StartUpdate asks for an update of the system. Errors: [fault.Invalid], [fault.Conflict]
// where there can be none now.
func (c *Client) StartUpdate(ctx context.Context, u adminapi.NewUpdate) (adminapi.Update, error) {
	return call[adminapi.Update](ctx, c, http.MethodPost, "/update", u)
}

// RollBack asks for the version in the other slot. Error: [fault.Conflict] where that
// cannot be now.
func (c *Client) RollBack(ctx context.Context) (adminapi.Update, error) {
	return call[adminapi.Update](ctx, c, http.MethodPost, "/update/rollback", nil)
}

// Clock returns the state of the gateway's clock.
func (c *Client) Clock(ctx context.Context) (adminapi.Clock, error) {
	return get[adminapi.Clock](ctx, c, "/clock")
}

// AcceptClock makes the gateway accept its system's time, and returns the state of the
// clock after that. Error: [fault.Conflict] where the clock is ahead of it.
func (c *Client) AcceptClock(ctx context.Context) (adminapi.Clock, error) {
	return call[adminapi.Clock](ctx, c, http.MethodPost, "/clock/accept", nil)
}

// ResetClock sets the gateway's clock and its floor back to its system's time, and
// returns the state of the clock after that. Errors: [fault.Conflict] where the clock
// is not ahead of it, [fault.Unavailable] where that cannot be stored.
func (c *Client) ResetClock(ctx context.Context) (adminapi.Clock, error) {
	return call[adminapi.Clock](ctx, c, http.MethodPost, "/clock/reset", nil)
}

// Testify compares witnesses with the journal, in their order.
func (c *Client) Testify(ctx context.Context, witnesses []journal.Witness) ([]journal.Testimony, error) {
	answer, err := call[map[string][]journal.Testimony](ctx, c, http.MethodPost, "/journal/witnesses", adminapi.Witnesses{Witnesses: witnesses})
	return answer["witnesses"], err
}

func accountPath(email, rest string) string { return "/accounts/" + url.PathEscape(email) + rest }

func stationPath(id site.StationID, rest string) string { return "/stations/" + id.String() + rest }

func grantPath(who, what string) string {
	return "/grants/" + url.PathEscape(who) + "/" + url.PathEscape(what)
}

func (q JournalQuery) encode() string {
	v := url.Values{}
	set := func(name, value string, stated bool) {
		if stated {
			v.Add(name, value)
		}
	}
	set("after", strconv.FormatUint(q.After, 10), q.After > 0)
	set("before", strconv.FormatUint(q.Before, 10), q.Before > 0)
	set("since", q.Since.UTC().Format(time.RFC3339Nano), !q.Since.IsZero())
	set("until", q.Until.UTC().Format(time.RFC3339Nano), !q.Until.IsZero())
	set("station", q.Station.String(), q.Station != 0)
	set("limit", strconv.Itoa(q.Limit), q.Limit > 0)
	set("tail", strconv.Itoa(q.Tail), q.Tail > 0)
	set("follow", "true", q.Follow)
	for _, kind := range q.Kinds {
		v.Add("kind", string(kind))
	}
	return v.Encode()
}
