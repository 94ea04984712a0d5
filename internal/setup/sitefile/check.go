package sitefile

import (
	"fmt"
	"time"

	"gatehouse/internal/site"
)

// The tables of a site file.
const (
	tableAccount = "account"
	tableStation = "station"
	tableGrant   = "grant"
)

// Check finds what is wrong with a site that did not come from [Parse]. Its error
// is an [*Error] without lines. What Parse returns has been checked.
func (s Site) Check() error {
	var problems []Problem
	c := &checker{report: func(p place, text string) {
		problems = append(problems, Problem{Text: p.String() + text})
	}}
	c.check(s)
	return Report("", problems)
}

// place says which value a problem is about.
type place struct {
	table string // empty for the site itself
	index int
	key   string // empty for the table as a whole
}

// String names the place for someone who has no lines: "account 3: ".
func (p place) String() string {
	if p.table == "" {
		return ""
	}
	return fmt.Sprintf("%s %d: ", p.table, p.index+1)
}

// path gives the path of the place in a TOML document.
func (p place) path() string {
	if p.table == "" {
		return p.key
	}
	path := index(p.table, p.index)
	if p.key == "" {
		return path
	}
	return join(path, p.key)
}

// checker finds what types alone do not exclude.
type checker struct {
	report func(place, string)
}

func (c *checker) add(table string, index int, key, format string, args ...any) {
	c.report(place{table: table, index: index, key: key}, fmt.Sprintf(format, args...))
}

func (c *checker) check(s Site) {
	if err := checkZone(s.TimeZone); err != nil {
		c.report(place{key: "timezone"}, err.Error())
	}
	c.accounts(s.Accounts)
	c.stations(s.Stations)
	c.grants(s.Grants)
}

func checkZone(name string) error {
	if name == "" {
		return nil
	}
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		return fmt.Errorf("%q is not a time zone: write it like Europe/Berlin", clip(name))
	}
	return nil
}

func (c *checker) accounts(list []Account) {
	first := make(map[site.Email]int, len(list))
	for i, a := range list {
		if a.Email == "" {
			c.add(tableAccount, i, "email", "the account has no email")
		} else if j, twice := first[a.Email]; twice {
			c.add(tableAccount, i, "email", "account %s stands here twice: it is also [[account]] number %d", a.Email, j+1)
		} else {
			first[a.Email] = i
		}
		c.password(i, a)
	}
}

func (c *checker) password(i int, a Account) {
	whose := "the password"
	if a.Email != "" {
		whose += " of " + string(a.Email)
	}
	if a.Password == "" {
		return
	}
	switch site.JudgePassword(a.Email, a.Password) {
	case site.PasswordShort:
		c.add(tableAccount, i, "password", "%s is too short: at least %d characters", whose, site.MinPassword)
	case site.PasswordLong:
		c.add(tableAccount, i, "password", "%s is too long: at most %d bytes", whose, site.MaxPassword)
	case site.PasswordIsEmail:
		c.add(tableAccount, i, "password", "%s is the e-mail address itself: choose another", whose)
	case site.PasswordNotorious:
		c.add(tableAccount, i, "password", "%s is one of the most common ones: choose another", whose)
	case site.PasswordGood:
	}
}

func (c *checker) stations(list []Station) {
	ids := make(map[site.StationID]int, len(list))
	tokens := make(map[site.Secret]site.StationID, len(list))
	for i, s := range list {
		if !s.ID.Valid() {
			c.add(tableStation, i, "id", "the station needs an id from 1 to %d", site.MaxStationID)
		} else if j, twice := ids[s.ID]; twice {
			c.add(tableStation, i, "id", "station %d stands here twice: it is also [[station]] number %d", s.ID, j+1)
		} else {
			ids[s.ID] = i
		}
		c.station(i, s)
		if other, twice := tokens[s.Token]; twice && s.Token != "" {
			c.add(tableStation, i, "token", "station %d has the token of station %d: each needs one of its own", s.ID, other)
		}
		tokens[s.Token] = s.ID
	}
}

func (c *checker) station(i int, s Station) {
	if s.Name != nil {
		if _, ok := site.CleanStationName(*s.Name); !ok {
			c.add(tableStation, i, "name", "the name of station %d must be at most %d characters, none of them a control character", s.ID, site.MaxStationName)
		}
	}
	if s.Locks != 0 && !site.ValidLocks(int64(s.Locks)) {
		c.add(tableStation, i, "locks", "locks must be from 1 to %d, not %d", site.MaxLocks, s.Locks)
	}
	if s.Secret != "" && !site.ValidStationSecret(s.Secret) {
		c.add(tableStation, i, "secret", "the secret of station %d must be %d to %d printable ASCII characters", s.ID, site.MinStationSecret, site.MaxStationSecret)
	}
	if s.Token != "" && !site.ValidStationToken(s.Token) {
		c.add(tableStation, i, "token", "the token of station %d must be %d to %d letters, digits or any of . _ ~ -", s.ID, site.MinStationToken, site.MaxStationToken)
	}
}

func (c *checker) grants(list []Grant) {
	type pair struct {
		account site.Email
		station site.StationID
	}
	seen := make(map[pair]int, len(list))
	for i, g := range list {
		c.grant(i, g)
		for _, id := range g.Stations {
			p := pair{g.Account, id}
			if j, twice := seen[p]; twice && g.Account != "" {
				c.add(tableGrant, i, "stations", "%s is granted station %d here and in [[grant]] number %d: there can be only one", g.Account, id, j+1)
			}
			seen[p] = i
		}
	}
}

func (c *checker) grant(i int, g Grant) {
	if g.Account == "" {
		c.add(tableGrant, i, "account", "the grant names no account")
	}
	if len(g.Stations) == 0 {
		c.add(tableGrant, i, "stations", "the grant names no stations")
	}
	for _, id := range g.Stations {
		if !id.Valid() {
			c.add(tableGrant, i, "stations", "a station id is a number from 1 to %d, not %d", site.MaxStationID, id)
		}
	}
	if from, until := site.At(g.From), site.At(g.Until); !from.IsZero() && !until.IsZero() && !from.Before(until.Time) {
		c.add(tableGrant, i, "until", "the grant ends before it begins: until must be later than from")
	}
}
