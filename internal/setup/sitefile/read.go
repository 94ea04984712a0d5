package sitefile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// reader takes a decoded TOML document apart and gathers what is wrong with it.
type reader struct {
	lines    map[string]int
	open     func(path string) (string, error) // reads a password file
	foreign  []string                          // names at the top that belong to another parser
	bad      map[string]bool                   // paths with a problem already
	problems []Problem
}

// add states a problem of the value at path; only the first of each path counts.
func (r *reader) add(path, format string, args ...any) {
	if !r.bad[path] {
		r.bad[path] = true
		r.problems = append(r.problems, Problem{Line: r.lineOf(path), Text: fmt.Sprintf(format, args...)})
	}
}

func (r *reader) lineOf(path string) int { return lineOf(r.lines, path) }

// lineOf gives the line of the value at path or, where it is missing, of what it
// would lie in.
func lineOf(lines map[string]int, path string) int {
	for {
		if line, ok := lines[path]; ok {
			return line
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return 1
		}
		path = path[:cut]
	}
}

func (r *reader) site(doc map[string]any) (s Site) {
	r.known(doc, "", "the file", slices.Concat(Names(), r.foreign)...)
	s.TimeZone, _ = field[string](r, doc, "", "timezone", "a text")
	r.tables(doc, tableAccount, func(path string, m map[string]any) {
		s.Accounts = append(s.Accounts, r.account(path, m))
	})
	r.tables(doc, tableStation, func(path string, m map[string]any) {
		s.Stations = append(s.Stations, r.station(path, m))
	})
	r.tables(doc, tableGrant, func(path string, m map[string]any) {
		s.Grants = append(s.Grants, r.grant(path, m))
	})
	return s
}

// tables calls each for every element of the array of tables under name; an
// element that is no table comes as an empty one, so that counts stay right.
func (r *reader) tables(doc map[string]any, name string, each func(path string, m map[string]any)) {
	var list []map[string]any
	switch v := doc[name].(type) {
	case nil:
	case []map[string]any:
		list = v
	case []any:
		for i, element := range v {
			m, ok := element.(map[string]any)
			if !ok {
				r.add(index(name, i), "%s must hold tables, not %s", name, typeName(element))
				return
			}
			list = append(list, m)
		}
	default:
		hint := ""
		if name == tableStation && r.foreign != nil {
			hint = "; the settings of [station] in the configuration cannot stand here"
		}
		r.add(name, "write [[%s]] with two pairs of brackets: there may be several%s", name, hint)
	}
	for i, m := range list {
		each(index(name, i), m)
	}
}

func (r *reader) account(path string, m map[string]any) (a Account) {
	r.known(m, path, "[[account]]", "email", "password", "password_file", "admin")
	if text, ok := field[string](r, m, path, "email", "a text"); ok {
		email, err := site.ParseEmail(text)
		if err != nil {
			r.add(join(path, "email"), "%s", err.Error())
		}
		a.Email = email
	}
	a.Password = r.secret(m, path, "password")
	if file, ok := field[string](r, m, path, "password_file", "a text"); ok {
		if _, both := m["password"]; both {
			r.add(join(path, "password_file"), "give either password or password_file, not both")
		} else {
			a.Password = r.passwordFile(join(path, "password_file"), file)
		}
	}
	if admin, ok := field[bool](r, m, path, "admin", "true or false"); ok {
		a.Admin = &admin
	}
	return a
}

func (r *reader) passwordFile(path, file string) site.Secret {
	text, err := r.open(file)
	if err != nil {
		r.add(path, "reading password_file: %s", err.Error())
		return ""
	}
	text = strings.TrimRight(text, "\r\n")
	if text == "" || strings.ContainsAny(text, "\r\n") {
		r.add(path, "password_file %s must hold the password in its one line", strconv.Quote(clip(file)))
		return ""
	}
	return site.Secret(text)
}

func (r *reader) station(path string, m map[string]any) (s Station) {
	r.known(m, path, "[[station]]", "id", "name", "locks", "secret", "token")
	if id, ok := field[int64](r, m, path, "id", "a whole number"); ok {
		s.ID = r.stationID(join(path, "id"), id)
	}
	if name, ok := field[string](r, m, path, "name", "a text"); ok {
		s.Name = &name
	}
	if locks, ok := field[int64](r, m, path, "locks", "a whole number"); ok {
		if !site.ValidLocks(locks) {
			r.add(join(path, "locks"), "locks must be from 1 to %d, not %d", site.MaxLocks, locks)
		}
		s.Locks = int(locks)
	}
	s.Secret = r.secret(m, path, "secret")
	s.Token = r.secret(m, path, "token")
	return s
}

func (r *reader) stationID(path string, id int64) site.StationID {
	if !site.StationID(id).Valid() {
		r.add(path, "a station id is a number from 1 to %d, not %d", site.MaxStationID, id)
	}
	return site.StationID(id)
}

func (r *reader) grant(path string, m map[string]any) (g Grant) {
	r.known(m, path, "[[grant]]", "account", "stations", "from", "until", "hours")
	if text, ok := field[string](r, m, path, "account", "a text"); ok {
		email, err := site.ParseEmail(text)
		if err != nil {
			r.add(join(path, "account"), "%s", err.Error())
		}
		g.Account = email
	}
	g.Stations = r.stationIDs(m, path)
	g.From = r.time(m, path, "from")
	g.Until = r.time(m, path, "until")
	if text, ok := field[string](r, m, path, "hours", "a text"); ok {
		hours, err := site.ParseSchedule(text)
		if err != nil {
			r.add(join(path, "hours"), "%s", err.Error())
		}
		g.Hours = hours
	}
	return g
}

func (r *reader) stationIDs(m map[string]any, path string) (ids []site.StationID) {
	list, _ := field[[]any](r, m, path, "stations", "an array of station ids, such as [1042]")
	for i, v := range list {
		at := index(join(path, "stations"), i)
		id, ok := v.(int64)
		if !ok {
			r.add(at, "stations must hold whole numbers, not %s", typeName(v))
		}
		ids = append(ids, r.stationID(at, id))
		if r.bad[at] {
			r.bad[join(path, "stations")] = true // enough is said of it
		}
	}
	return ids
}

// secret reads a password, secret or token: given, it is never empty.
func (r *reader) secret(m map[string]any, path, key string) site.Secret {
	text, ok := field[string](r, m, path, key, "a text in quotes")
	if ok && text == "" {
		r.add(join(path, key), "%s is empty: leave the line out, and one is generated", key)
	}
	return site.Secret(text)
}

// time reads a time with its offset; one without would be another moment on
// another machine.
func (r *reader) time(m map[string]any, path, key string) time.Time {
	t, ok := field[time.Time](r, m, path, key, "a time without quotes, such as 2026-01-01T00:00:00Z")
	if ok && strings.HasSuffix(t.Location().String(), "-local") {
		r.add(join(path, key), "%s needs a time with its offset from UTC, such as 2026-01-01T00:00:00Z", key)
	}
	return t
}

// field gives the value of key in the table at path, if it is there and a T.
func field[T any](r *reader, m map[string]any, path, key, want string) (value T, ok bool) {
	v, found := m[key]
	if !found {
		return value, false
	}
	value, ok = v.(T)
	if !ok {
		r.add(join(path, key), "%s must be %s, not %s", key, want, typeName(v))
	}
	return value, ok
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "a text"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case bool:
		return "true or false"
	case time.Time:
		return "a time"
	case map[string]any:
		return "a table"
	default:
		return "an array"
	}
}

// known states a problem for every key of m that is not among keys.
func (r *reader) known(m map[string]any, path, table string, keys ...string) {
	for key := range m {
		if slices.Contains(keys, key) {
			continue
		}
		hint := table + " has " + strings.Join(keys, ", ")
		if near := nearest(key, keys); near != "" {
			hint = "did you mean " + strconv.Quote(near) + "?"
		}
		where := ""
		if path != "" {
			where = " in " + table
		}
		r.add(join(path, key), "unknown key %s%s: %s", strconv.Quote(clip(key)), where, hint)
	}
}

// clip shortens a text of the file for use in a problem.
func clip(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
