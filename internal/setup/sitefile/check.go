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

// must adds a problem unless a rule holds.
func (c *checker) must(holds bool, at place, key, format string, args ...any) {
	if !holds {
		c.add(at, key, format, args...)
	}
}

// once adds a problem where a table before has the same name, unless that is "".
func (c *checker) once(seen map[string]int, at place, key, name string) {
	first, twice := seen[name]
	c.must(!twice || name == "", at, key, "%s %s is in this file twice: it is also [[%s]] number %d", at.table, name, at.table, first+1)
	if !twice {
		seen[name] = at.index
	}
}

func (c *checker) check(s *Site) {
	_, err := time.LoadLocation(s.TimeZone)
	c.must(err == nil && s.TimeZone != "Local", place{lines: s.Lines}, keyTimeZone, "%s is not a time zone: write it like Europe/Berlin", tomlfile.Quote(s.TimeZone))
	c.accounts(s.Accounts)
	c.stations(s.Stations)
	c.groups(s.Groups)
	c.holidays(s.Holidays)
	c.grants(s.Grants)
}

func (c *checker) accounts(list []Account) {
	seen := make(map[string]int, len(list))
	for i := range list {
		a, at := &list[i], place{tableAccount, i, list[i].Lines}
		c.email(at, "email", &a.Email, "the account has no email")
		c.once(seen, at, "email", string(a.Email))
		flaw := site.PasswordFlaw(a.Email, a.Password)
		c.must(flaw == "" || a.Password == "", at, "password", "the password of %s %s", cmp.Or(string(a.Email), "this account"), flaw)
	}
}

// email brings an address into its canonical form.
func (c *checker) email(at place, key string, email *site.Email, missing string) {
	if *email == "" {
		c.add(at, key, "%s", missing)
		return
	}
	parsed, err := site.ParseEmail(string(*email))
	c.must(err == nil, at, key, "%v", err)
	*email = parsed
}

func (c *checker) stations(list []Station) {
	seen := make(map[string]int, len(list))
	tokens := make(map[site.Secret]site.StationID, len(list))
	for i, s := range list {
		at := place{tableStation, i, s.Lines}
		c.must(s.ID.Valid(), at, "id", "the station needs an id from 1 to %d", site.MaxStationID)
		if s.ID.Valid() {
			c.once(seen, at, "id", s.ID.String())
		}
		if s.Name != nil {
			_, ok := site.CleanStationName(*s.Name)
			c.must(ok, at, "name", "the name of station %d must be at most %d characters, none of them a control character", s.ID, site.MaxStationName)
		}
		c.must(s.Locks == 0 || site.ValidLocks(int64(s.Locks)), at, "locks", "locks must be from 1 to %d, not %d", site.MaxLocks, s.Locks)
		c.must(s.HomeAssistant == "" || s.HomeAssistant.Valid(), at, "homeassistant", `homeassistant must be "off", "state" or "state+unlock"`)
		c.must(s.Secret == "" || site.ValidStationSecret(s.Secret), at, "secret",
			"the secret of station %d must be %d to %d printable ASCII characters", s.ID, site.MinStationSecret, site.MaxStationSecret)
		c.must(s.Token == "" || site.ValidStationToken(s.Token), at, "token",
			"the token of station %d must be %d to %d letters, digits or any of . _ ~ -", s.ID, site.MinStationToken, site.MaxStationToken)
		other, twice := tokens[s.Token]
		c.must(!twice || s.Token == "", at, "token", "station %d has the token of station %d: each needs its own", s.ID, other)
		tokens[s.Token] = s.ID
	}
}

func (c *checker) groups(list []Group) {
	seen := make(map[string]int, len(list))
	for i := range list {
		g, at := &list[i], place{tableGroup, i, list[i].Lines}
		c.groupName(at, "name", &g.Name)
		c.once(seen, at, "name", string(g.Name))
		c.must((g.Accounts == nil) != (g.Stations == nil), at, "stations", "the group needs either accounts or stations")
		for k := range g.Accounts {
			c.email(at, "accounts", &g.Accounts[k], "the group has an account without an e-mail address")
		}
		for _, id := range g.Stations {
			c.must(id.Valid(), at, "stations", "a station id is a number from 1 to %d, not %d", site.MaxStationID, id)
		}
	}
}

// groupName brings a name into its canonical form.
func (c *checker) groupName(at place, key string, name *site.GroupName) {
	parsed, err := site.ParseGroupName(string(*name))
	c.must(err == nil, at, key, "%v", err)
	*name = parsed
}

func (c *checker) holidays(list []Holiday) {
	seen := make(map[string]int, len(list))
	for i := range list {
		h, at := &list[i], place{tableHoliday, i, list[i].Lines}
		name, err := site.ParseHolidayName(h.Name)
		c.must(err == nil, at, "name", "%v", err)
		h.Name = name
		c.once(seen, at, "name", name)
		h.Dates = site.JoinDates(h.Dates, nil)
		c.must(len(h.Dates) > 0 && len(h.Dates) <= site.MaxHolidayDates, at, "dates", "a holiday has 1 to %d dates, not %d", site.MaxHolidayDates, len(h.Dates))
		c.must(i != site.MaxHolidays, at, "name", "there are more than %d holidays", site.MaxHolidays)
	}
}

func (c *checker) grants(list []Grant) {
	seen := make(map[[2]site.Ref]int, len(list))
	for i := range list {
		g, at := &list[i], place{tableGrant, i, list[i].Lines}
		if g.Account.Group != "" {
			c.groupName(at, "account", &g.Account.Group)
		} else {
			c.email(at, "account", &g.Account.Email, "the grant names no account")
		}
		c.must(len(g.Stations) > 0, at, "stations", "the grant names no stations")
		c.must(g.From.IsZero() || g.Until.IsZero() || g.From.Before(g.Until.Time), at, "until", "the grant ends before it begins: until must be later than from")
		for k := range g.Stations {
			what, noun := &g.Stations[k], "station"
			if what.Group += site.GroupName(what.Email); what.Group != "" {
				c.groupName(at, "stations", &what.Group)
				noun = "group"
			} else {
				c.must(what.Station.Valid(), at, "stations", "a station id is a number from 1 to %d, not %d", site.MaxStationID, what.Station)
			}
			pair := [2]site.Ref{g.Account, *what}
			j, twice := seen[pair]
			c.must(!twice || g.Account == (site.Ref{}), at, "stations", "%s is granted %s %s here and in [[grant]] number %d: there can be only one", g.Account, noun, what, j+1)
			seen[pair] = i
		}
	}
}
