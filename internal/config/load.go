package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// systemFile is read where no file is named and this one exists.
	systemFile = "/etc/gatehouse/gatehouse.toml"

	// partsFolder stands beside the file; its parts are laid over it.
	partsFolder = "conf.d"

	// prefix begins every variable of the gateway.
	prefix = "GATEHOUSE_"

	// fileVariable names the file.
	fileVariable = prefix + "CONFIG"

	// MaxFile bounds what is read of one file, in bytes: the annotated file is a tenth
	// of it.
	MaxFile = 64 << 10

	// maxParts bounds how many files stand in the folder.
	maxParts = 64
)

// ofCommandLine are variables that set no key: the command line reads them.
func ofCommandLine() []string {
	return []string{fileVariable, prefix + "SOCKET", prefix + "PASSPHRASE"}
}

// Load gives the defaults, the files over them in the order of [Files], and the
// environment over all. environ has the form of [os.Environ]. The error is an
// [*Error] with all that is wrong, or says why a file cannot be read. The result is
// valid, and its Admin.Socket and Journal.HardSize are set.
func Load(path string, environ []string) (Config, error) {
	files, err := Files(path, environ)
	if err != nil {
		return Config{}, err
	}
	c, _, err := Lay(files, environ)
	return c, err
}

// Parse is [Load] of one file that was read already; name stands in the problems.
func Parse(name string, text []byte, environ []string) (Config, error) {
	c, _, err := Lay([]File{{Name: name, Text: text}}, environ)
	return c, err
}

// Sources says where each key was set, by its path: "/etc/gatehouse/gatehouse.toml:12"
// or the name of a variable. Keys that have their default are not in it.
type Sources map[string]string

// Lay gives the defaults, the files over them in their order, and the environment
// over all, as [Load] does.
func Lay(files []File, environ []string) (Config, Sources, error) {
	l := loader{config: Defaults(environ), files: files, set: make(map[string]source), unread: make(map[string]bool)}
	for i := range files {
		l.readFile(i)
	}
	l.readEnvironment(environ)
	for _, f := range l.config.faults() {
		if f.other != nil && l.set[f.other.path].file > l.set[f.path].file {
			f = *f.other // who laid the one over the other wants to read of his own file
		}
		if !l.unread[f.path] {
			l.report(l.set[f.path], f)
		}
	}
	if len(l.found) > 0 {
		return Config{}, nil, l.error()
	}
	l.config.Admin.Socket = l.config.AdminSocket()
	l.config.Journal.HardSize = l.config.Journal.HardLimit()
	return l.config, l.sources(), nil
}

// source says where something stands; a line of a file or a variable, else the
// default.
type source struct {
	file, line int
	variable   string
}

// loader gathers the values and the problems of one [Lay].
type loader struct {
	config Config
	files  []File
	set    map[string]source // where each key was set, by its path
	unread map[string]bool   // keys whose value is of the wrong type, by path
	found  []found
}

// found is a problem with the place to sort it by.
type found struct {
	at source
	Problem
}

func (l *loader) report(at source, f fault) {
	p := problem(cmp.Or(l.where(at), f.path), f)
	p.Line = at.line
	l.found = append(l.found, found{at, p})
}

// take keeps where the key at path was set and what was wrong with its value.
func (l *loader) take(path string, at source, err error) {
	l.set[path] = at
	delete(l.unread, path)
	if err != nil {
		l.unread[path] = true
		l.report(at, fault{path: path, what: err.Error()})
	}
}

// where names a source; the empty text is the default.
func (l *loader) where(at source) string {
	switch {
	case at.variable != "":
		return at.variable
	case at.line > 0:
		return fmt.Sprintf("%s:%d", l.files[at.file].Name, at.line)
	default:
		return ""
	}
}

func (l *loader) sources() Sources {
	all := make(Sources, len(l.set))
	for path, at := range l.set {
		all[path] = l.where(at)
	}
	return all
}

// error gives the problems in the order of the files, then of the environment,
// then those of no place.
func (l *loader) error() error {
	slices.SortStableFunc(l.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.at.variable, b.at.variable), cmp.Compare(a.at.file, b.at.file), cmp.Compare(a.at.line, b.at.line))
	})
	e := &Error{}
	for _, f := range l.found {
		e.Problems = append(e.Problems, f.Problem)
	}
	return e
}

// readEnvironment lays the variables over what stands.
func (l *loader) readEnvironment(environ []string) {
	byVariable := make(map[string]key)
	for _, k := range keys() {
		byVariable[k.variable()] = k
	}
	for _, entry := range environ {
		variable, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(variable, prefix) || slices.Contains(ofCommandLine(), variable) {
			continue
		}
		k, known := byVariable[variable]
		if !known {
			if what := unknownVariable(variable); what != "" {
				l.report(source{variable: variable}, fault{what: what})
			}
			continue
		}
		l.take(k.path, source{variable: variable}, k.words(assignText(k.field(&l.config), text)))
	}
}

// lookup gives the value of a variable; the last one counts, as for a process.
func lookup(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if variable, value, _ := strings.Cut(entry, "="); variable == name {
			return value
		}
	}
	return ""
}
