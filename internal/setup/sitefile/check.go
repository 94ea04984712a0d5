package sitefile

import (
	"cmp"
	"fmt"
	"time"

	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// Check finds what is wrong with a site that came over the admin API, and brings its
// e-mail addresses into their canonical form. Its error is a [*tomlfile.Error].
func (s *Site) Check() error {
	c := &checker{file: s.File}
	c.check(s)
	return tomlfile.Report(c.problems) //nolint:wrapcheck // it names the file
}

// place is a table of a site, in which a problem is.
type place struct {
	table string // "" is the top
	index int
	lines Lines
}

// checker gathers what is wrong with a site.
type checker struct {
	file     string
	problems []tomlfile.Problem
}

// add adds a problem of a key of a table. Without lines the table is named.
func (c *checker) add(at place, key, format string, args ...any) {
	line, name := at.lines.Of(key), ""
	if line == 0 && at.table != "" {
		name = fmt.Sprintf("%s %d: ", at.table, at.index+1)
	}
	c.problem(line, "%s%s", name, fmt.Sprintf(format, args...))
}

func (c *checker) problem(line int, format string, args ...any) {
	c.problems = append(c.problems, tomlfile.Problem{File: c.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) check(s *Site) {
	if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
		c.add(place{lines: s.Lines}, keyTimeZone, "%s is not a time zone: write it like Europe/Berlin", tomlfile.Quote(s.TimeZone))
	}
	c.accounts(s.Accounts)
	c.stations(s.Stations)
	c.grants(s.Grants)
}

func (c *checker) accounts(list []Account) {
	first := make(map[site.Email]int, len(list))
	for i := range list {
		a := &list[i]
		c.email(place{tableAccount, i, a.Lines}, "email", &a.Email, "the account has no email")
		if j, twice := first[a.Email]; twice && a.Email != "" {
			c.add(place{tableAccount, i, a.Lines}, "email", "account %s is in this file twice: it is also [[account]] number %d", a.Email, j+1)
		} else {
			first[a.Email] = i
		}
		c.password(i, *a)
	}
}

// email brings an address into its canonical form.
func (c *checker) email(at place, key string, email *site.Email, missing string) {
	if *email == "" {
		c.add(at, key, "%s", missing)
		return
	}
	parsed, err := site.ParseEmail(string(*email))
	if err != nil {
		c.add(at, key, "%s", err)
	}
	*email = parsed
}

func (c *checker) password(i int, a Account) {
	if a.Password == "" {
		return
	}
	if flaw := site.PasswordFlaw(a.Email, a.Password); flaw != "" {
		c.add(place{tableAccount, i, a.Lines}, "password", "the password of %s %s", cmp.Or(string(a.Email), "this account"), flaw)
	}
}

func (c *checker) stations(list []Station) {
	ids := make(map[site.StationID]int, len(list))
	tokens := make(map[site.Secret]site.StationID, len(list))
	for i, s := range list {
		if !s.ID.Valid() {
			c.add(place{tableStation, i, s.Lines}, "id", "the station needs an id from 1 to %d", site.MaxStationID)
		} else if j, twice := ids[s.ID]; twice {
			c.add(place{tableStation, i, s.Lines}, "id", "station %d is in this file twice: it is also [[station]] number %d", s.ID, j+1)
		} else {
			ids[s.ID] = i
		}
		c.station(i, s)
		if other, twice := tokens[s.Token]; twice && s.Token != "" {
			c.add(place{tableStation, i, s.Lines}, "token", "station %d has the token of station %d: each needs its own", s.ID, other)
		}
		tokens[s.Token] = s.ID
	}
}

func (c *checker) station(i int, s Station) {
	if s.Name != nil {
		if _, ok := site.CleanStationName(*s.Name); !ok {
			c.add(place{tableStation, i, s.Lines}, "name", "the name of station %d must be at most %d characters, none of them a control character", s.ID, site.MaxStationName)
		}
	}
	if s.Locks != 0 && !site.ValidLocks(int64(s.Locks)) {
		c.add(place{tableStation, i, s.Lines}, "locks", "locks must be from 1 to %d, not %d", site.MaxLocks, s.Locks)
	}
	if s.Secret != "" && !site.ValidStationSecret(s.Secret) {
		c.add(place{tableStation, i, s.Lines}, "secret", "the secret of station %d must be %d to %d printable ASCII characters", s.ID, site.MinStationSecret, site.MaxStationSecret)
	}
	if s.Token != "" && !site.ValidStationToken(s.Token) {
		c.add(place{tableStation, i, s.Lines}, "token", "the token of station %d must be %d to %d letters, digits or any of . _ ~ -", s.ID, site.MinStationToken, site.MaxStationToken)
	}
}

func (c *checker) grants(list []Grant) {
	type pair struct {
		account site.Email
		station site.StationID
	}
	seen := make(map[pair]int, len(list))
	for i := range list {
		g := &list[i]
		c.email(place{tableGrant, i, g.Lines}, "account", &g.Account, "the grant names no account")
		c.grant(i, *g)
		for _, id := range g.Stations {
			p := pair{g.Account, id}
			if j, twice := seen[p]; twice && g.Account != "" {
				c.add(place{tableGrant, i, g.Lines}, "stations", "%s is granted station %d here and in [[grant]] number %d: there can be only one", g.Account, id, j+1)
			}
			seen[p] = i
		}
	}
}

func (c *checker) grant(i int, g Grant) {
	if len(g.Stations) == 0 {
		c.add(place{tableGrant, i, g.Lines}, "stations", "the grant names no stations")
	}
	for _, id := range g.Stations {
		if !id.Valid() {
			c.add(place{tableGrant, i, g.Lines}, "stations", "a station id is a number from 1 to %d, not %d", site.MaxStationID, id)
		}
	}
	if from, until := site.At(g.From), site.At(g.Until); !from.IsZero() && !until.IsZero() && !from.Before(until.Time) {
		c.add(place{tableGrant, i, g.Lines}, "until", "the grant ends before it begins: until must be later than from")
	}
}
