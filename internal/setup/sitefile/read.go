package sitefile

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// The keys at the top of a site file. Both spellings of the time zone are right.
const (
	keyTimeZone  = "timezone"
	keyTimeZone2 = "time_zone"
	tableAccount = "account"
	tableStation = "station"
	tableGrant   = "grant"
)

// Names lists what a site file has at its top.
func Names() []string { return []string{keyTimeZone, tableAccount, tableStation, tableGrant} }

// Read reads the site in a document and returns all that is wrong with it. The names of
// foreign at the top of the document belong to another parser.
func Read(d *tomlfile.Document, foreign []string) (Site, []tomlfile.Problem) {
	r := &reader{checker: checker{file: d.Name, bad: map[place]bool{}}, foreign: foreign}
	s := Site{File: d.Name}
	top := table{reader: r, node: d.Root, title: "the file"}
	s.Lines = top.lines()
	s.TimeZone = top.timeZone(s.Lines)
	top.known(slices.Concat(Names(), foreign)...)
	for _, t := range top.tables(tableAccount) {
		s.Accounts = append(s.Accounts, t.account())
	}
	for _, t := range top.tables(tableStation) {
		s.Stations = append(s.Stations, t.station())
	}
	for _, t := range top.tables(tableGrant) {
		s.Grants = append(s.Grants, t.grant())
	}
	s.PasswordFiles = r.passwordFiles
	r.check(&s)
	return s, r.problems
}

// reader reads one document and gathers what is wrong with it.
type reader struct {
	checker
	foreign       []string
	passwordFiles []string
}

// table is a table that is being read.
type table struct {
	*reader
	place // of the table; its key is empty
	node  *tomlfile.Node
	title string // in problems, such as "[[account]]"
}

func (t table) lines() Lines {
	lines := Lines{"": t.node.Line}
	for name, n := range t.node.Keys {
		lines[name] = n.Line
	}
	return lines
}

// wrong adds a problem of a key of the table.
func (t table) wrong(key, format string, args ...any) {
	t.add(place{t.table, t.index, key}, t.lines(), format, args...)
}

// tables returns the elements of an array of tables.
func (t table) tables(name string) (all []table) {
	n := t.node.Keys[name]
	switch {
	case n == nil:
		return nil
	case n.Items == nil:
		hint := ""
		if name == tableStation && t.foreign != nil {
			hint = "; the settings of [station] in the configuration cannot be in this file"
		}
		t.wrong(name, "write [[%s]] with two pairs of brackets: there may be several%s", name, hint)
		return nil
	}
	for i, item := range n.Items {
		if item.Keys == nil {
			t.problem(item.Line, "%s must hold tables", name)
			continue
		}
		all = append(all, table{t.reader, place{name, i, ""}, item, "[[" + name + "]]"})
	}
	return all
}

// timeZone accepts either spelling, unless the second belongs to the other parser.
func (t table) timeZone(lines Lines) string {
	second, both := t.node.Keys[keyTimeZone2]
	if !both || slices.Contains(t.foreign, keyTimeZone2) {
		zone, _ := field[string](t, keyTimeZone, "a text in quotes")
		return zone
	}
	if t.node.Keys[keyTimeZone] != nil {
		t.problem(second.Line, "%s and %s mean the same: keep one of the two", keyTimeZone, keyTimeZone2)
	}
	lines[keyTimeZone] = second.Line
	zone, _ := field[string](t, keyTimeZone2, "a text in quotes")
	return zone
}

func (t table) account() (a Account) {
	t.known("email", "password", "password_file", "admin")
	a.Lines = t.lines()
	text, _ := field[string](t, "email", "a text in quotes")
	a.Email = site.Email(text)
	a.Password = t.secret("password")
	if file, ok := field[string](t, "password_file", "a text in quotes"); ok {
		a.Lines["password"] = t.node.Keys["password_file"].Line
		a.Password = t.passwordFile(file)
	}
	if admin, ok := field[bool](t, "admin", "true or false without quotes"); ok {
		a.Admin = &admin
	}
	return a
}

func (t table) passwordFile(name string) site.Secret {
	if t.node.Keys["password"] != nil {
		t.wrong("password_file", "keep one of password and password_file")
		return ""
	}
	path := inFolder(t.file, name)
	t.passwordFiles = append(t.passwordFiles, path)
	text, err := readPassword(path)
	if err != nil {
		t.wrong("password_file", "reading password_file: %s", err)
	}
	return site.Secret(text)
}

func (t table) station() (s Station) {
	t.known("id", "name", "locks", "secret", "token")
	s.Lines = t.lines()
	if id, ok := field[int64](t, "id", "a whole number without quotes"); ok {
		s.ID = t.stationID("id", id)
	}
	if name, ok := field[string](t, "name", "a text in quotes"); ok {
		s.Name = &name
	}
	if locks, ok := field[int64](t, "locks", "a whole number without quotes"); ok {
		if !site.ValidLocks(locks) {
			t.wrong("locks", "locks must be from 1 to %d, not %d", site.MaxLocks, locks)
			locks = 0
		}
		s.Locks = int(locks)
	}
	s.Secret = t.secret("secret")
	s.Token = t.secret("token")
	return s
}

func (t table) stationID(key string, id int64) site.StationID {
	if !site.StationID(id).Valid() {
		t.wrong(key, "a station id is a number from 1 to %d, not %d", site.MaxStationID, id)
	}
	return site.StationID(id)
}

func (t table) grant() (g Grant) {
	t.known("account", "stations", "from", "until", "hours")
	g.Lines = t.lines()
	text, _ := field[string](t, "account", "a text in quotes")
	g.Account = site.Email(text)
	g.Stations = t.stationIDs()
	g.From = t.time("from")
	g.Until = t.time("until")
	if text, ok := field[string](t, "hours", "a text in quotes"); ok {
		hours, err := site.ParseSchedule(text)
		if err != nil {
			t.wrong("hours", "%s", err)
		}
		g.Hours = hours
	}
	return g
}

func (t table) stationIDs() (ids []site.StationID) {
	n := t.node.Keys["stations"]
	if n == nil {
		return nil
	}
	if n.Items == nil {
		t.wrong("stations", "stations must be an array of station ids, such as [1042]")
	}
	for _, item := range n.Items {
		id, ok := item.Value.(int64)
		if !ok {
			t.problem(item.Line, "stations must hold whole numbers without quotes")
			t.bad[place{t.table, t.index, "stations"}] = true
			continue
		}
		ids = append(ids, t.stationID("stations", id))
	}
	return ids
}

// secret reads a password, secret or token: if it is stated, it is not empty.
func (t table) secret(key string) site.Secret {
	text, ok := field[string](t, key, "a text in quotes")
	if ok && text == "" {
		t.wrong(key, "%s is empty: leave the line out, and one is generated", key)
	}
	return site.Secret(text)
}

// time reads a time with its offset; one without would be another moment on another
// machine.
func (t table) time(key string) (at time.Time) {
	const example = "2026-01-01T00:00:00Z"
	n := t.node.Keys[key]
	if n == nil {
		return at
	}
	switch v := n.Value.(type) {
	case time.Time:
		return v
	case tomlfile.Local:
		t.wrong(key, "%s needs a time with its offset from UTC, such as %s", key, example)
	default:
		t.wrong(key, "%s must be a time without quotes, such as %s", key, example)
	}
	return at
}

// field returns the value of a key of the table, if it is stated and a T.
func field[T any](t table, key, want string) (value T, ok bool) {
	n := t.node.Keys[key]
	if n == nil {
		return value, false
	}
	value, ok = n.Value.(T)
	if !ok {
		t.wrong(key, "%s must be %s", key, want)
	}
	return value, ok
}

// known adds a problem for every key of the table that is not among keys.
func (t table) known(keys ...string) {
	for _, name := range t.node.Names() {
		if slices.Contains(keys, name) || t.table == "" && name == keyTimeZone2 {
			continue
		}
		hint := t.title + " has " + strings.Join(keys, ", ")
		if meant := tomlfile.Nearest(name, keys); meant != "" {
			hint = "did you mean " + strconv.Quote(meant) + "?"
		}
		where := ""
		if t.table != "" {
			where = " in " + t.title
		}
		t.wrong(name, "unknown key %s%s: %s", tomlfile.Quote(name), where, hint)
	}
}
