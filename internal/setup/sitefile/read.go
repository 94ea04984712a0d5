package sitefile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// The keys at the top of a site file.
const (
	keyTimeZone  = "timezone"
	tableAccount = "account"
	tableStation = "station"
	tableGroup   = "group"
	tableHoliday = "holiday"
	tableGrant   = "grant"
)

// Names lists what a site file has at its top.
func Names() []string {
	return []string{keyTimeZone, tableAccount, tableStation, tableGroup, tableHoliday, tableGrant}
}

// What a value must be, as the rest of a sentence that begins with the key.
const (
	aText    = "a text in quotes"
	aNumber  = "a whole number without quotes"
	aTruth   = "true or false without quotes"
	aTime    = "a time without quotes, with its offset from UTC, such as 2026-01-01T00:00:00Z"
	numbers  = "a list of whole numbers without quotes, such as [1042]"
	someTime = `a text such as "Mon-Fri 08:00-18:00"`
	emails   = `a list of e-mail addresses in quotes, such as ["porter@example.test"]`
	targets  = `a list of station ids without quotes and of names of groups in quotes, such as [1042, "ground floor"]`
	someDays = `a list of texts such as ["12-25", "2026-08-03..2026-08-21"]`
)

// key is a key of a table, with what its value must be.
type key struct{ name, want string }

// keysOf returns the keys of a table; those of the top for "". Except for password_file,
// they are those of its JSON form.
func keysOf(table string) []key {
	switch table {
	case tableAccount:
		return []key{{"email", aText}, {"password", aText}, {keyPasswordFile, aText}, {"admin", aTruth}}
	case tableStation:
		return []key{{"id", aNumber}, {"name", aText}, {"locks", aNumber}, {"secret", aText}, {"token", aText}, {"homeassistant", aText}}
	case tableGrant:
		return []key{{"account", aText}, {"stations", targets}, {"from", aTime}, {"until", aTime}, {"hours", someTime}, {"holidays", someTime + ` or "none"`}}
	case tableGroup:
		return []key{{"name", aText}, {"accounts", emails}, {"stations", numbers}}
	case tableHoliday:
		return []key{{"name", aText}, {"dates", someDays}}
	}
	return []key{{keyTimeZone, aText}}
}

const keyPasswordFile = "password_file"

// Read reads the site in a document and returns all that is wrong with it. The names of
// foreign at the top of the document belong to another parser.
func Read(d *tomlfile.Document, foreign []string) (Site, []tomlfile.Problem) {
	r := &reader{checker: checker{file: d.Name}, document: d, foreign: foreign}
	s := Site{File: d.Name}
	s.Lines = r.read(place{}, d.Values, &s)
	for at, values := range r.tables(tableAccount) {
		a := Account{}
		a.Lines = r.read(at, values, &a)
		if file, stated := values[keyPasswordFile].(string); stated {
			a.Lines["password"] = a.Lines[keyPasswordFile]
			at.lines = a.Lines
			_, another := values["password"]
			a.Password = r.passwordFile(at, file, another)
		}
		s.Accounts = append(s.Accounts, a)
	}
	s.Stations = readAll(r, tableStation, func(st *Station) *Lines { return &st.Lines })
	s.Groups = readAll(r, tableGroup, func(g *Group) *Lines { return &g.Lines })
	s.Holidays = readAll(r, tableHoliday, func(h *Holiday) *Lines { return &h.Lines })
	s.Grants = readAll(r, tableGrant, func(g *Grant) *Lines { return &g.Lines })
	s.PasswordFiles = r.passwordFiles
	r.check(&s)
	return s, r.problems
}

// reader reads one document and gathers what is wrong with it.
type reader struct {
	checker
	document      *tomlfile.Document
	foreign       []string
	passwordFiles []string
}

// tables visits the elements of an array of tables.
func (r *reader) tables(name string) func(yield func(place, map[string]any) bool) {
	value, stated := r.document.Values[name]
	list, isList := value.([]any)
	switch {
	case stated && !isList:
		hint := ""
		if name == tableStation && r.foreign != nil {
			hint = "; the settings of [station] in the configuration cannot be in this file"
		}
		r.problem(r.document.Line(name), "write [[%s]] with two pairs of brackets: there may be several%s", name, hint)
	case slices.ContainsFunc(list, func(item any) bool { _, isTable := item.(map[string]any); return !isTable }):
		r.problem(r.document.Line(name), "%s must hold tables", name)
		list = nil
	}
	return func(yield func(place, map[string]any) bool) {
		for i, item := range list {
			if values, _ := item.(map[string]any); !yield(place{table: name, index: i}, values) {
				return
			}
		}
	}
}

// readAll reads an array of tables.
func readAll[T any](r *reader, table string, lines func(*T) *Lines) (all []T) {
	for at, values := range r.tables(table) {
		var one T
		*lines(&one) = r.read(at, values, &one)
		all = append(all, one)
	}
	return all
}

// read decodes the values of a table into its type, by their JSON form, and returns their
// lines.
func (r *reader) read(at place, values map[string]any, into any) Lines {
	path := []string{at.table, strconv.Itoa(at.index)}
	if at.table == "" {
		path = nil
	}
	at.lines = Lines{"": r.document.Line(path...)}
	for name := range values {
		at.lines[name] = r.document.Line(append(path[:len(path):len(path)], name)...)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if at.table == "" && (slices.Contains(r.foreign, name) || name != keyTimeZone && slices.Contains(Names(), name)) {
			continue
		}
		keys := keysOf(at.table)
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			r.unknown(at, name)
			continue
		}
		if err := decode(name, values[name], keys[i].want, into); err != nil {
			r.add(at, name, "%s", err)
		}
	}
	return at.lines
}

// decode puts one value into the field of that name in JSON.
func decode(name string, value any, want string, into any) error {
	text, isText := value.(string)
	switch {
	case isText && text == "" && site.IsSecretName(name):
		return fmt.Errorf("%s is empty: leave the line out, and one is generated", name)
	case want == aNumber && value == int64(0): // no number of a site may be 0, which in JSON means absent
		return fmt.Errorf("%s must be 1 or more", name)
	}
	data, err := json.Marshal(map[string]any{name: value})
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil || isText && want == aTime || !isText && want == aText {
		return fmt.Errorf("%s must be %s", name, want)
	}
	return nil
}

// passwordFile reads the password of an account from the file of that name.
func (r *reader) passwordFile(at place, name string, another bool) site.Secret {
	if another {
		r.add(at, keyPasswordFile, "keep one of password and password_file")
		return ""
	}
	path := inFolder(r.file, name)
	r.passwordFiles = append(r.passwordFiles, path)
	text, err := readPassword(path)
	if err != nil {
		r.add(at, keyPasswordFile, "reading password_file: %s", err)
	}
	return site.Secret(text)
}

// unknown adds the problem of a key that the table does not have.
func (r *reader) unknown(at place, name string) {
	var names []string
	for _, k := range keysOf(at.table) {
		names = append(names, k.name)
	}
	where, title := "", "the file"
	if at.table == "" {
		names = slices.Concat(Names(), r.foreign)
	} else {
		title = "[[" + at.table + "]]"
		where = " in " + title
	}
	hint := title + " has " + strings.Join(names, ", ")
	if meant := tomlfile.Nearest(name, names); meant != "" {
		hint = "did you mean " + strconv.Quote(meant) + "?"
	}
	r.add(at, name, "unknown key %s%s: %s", tomlfile.Quote(name), where, hint)
}
