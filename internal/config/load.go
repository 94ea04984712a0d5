package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatehouse/internal/setup/tomlfile"
)

const (
	// systemFile is read where no file is named and this one exists.
	systemFile = "/etc/gatehouse/gatehouse.toml"

	// partsFolder is beside the file; its parts are laid over it.
	partsFolder = "conf.d"

	// prefix begins every variable of the gateway.
	prefix = "GATEHOUSE_"

	// fileVariable names the file.
	fileVariable = prefix + "CONFIG"

	// MaxFile bounds what is read of one file, in bytes: the annotated file is a tenth
	// of it.
	MaxFile = 64 << 10

	// maxParts bounds how many files there are in the folder.
	maxParts = 64
)

// ofCommandLine are variables that set no key: the command line reads them.
func ofCommandLine() []string {
	return []string{fileVariable, prefix + "SOCKET", prefix + "PASSPHRASE"}
}

// Load returns the defaults, the files over them in the order of [Files], and the
// environment over all. environ has the form of [os.Environ]. The error is a
// [*tomlfile.Error] with all that is wrong, or says why a file cannot be read. The result
// is valid, and its Admin.Socket and Journal.HardSize are set.
func Load(path string, environ []string) (Config, error) {
	files, err := Files(path, environ)
	if err != nil {
		return Config{}, err
	}
	c, _, err := Lay(files, environ)
	return c, err
}

// Source is where a key was set.
type Source struct {
	File string // or the name of a variable
	Line int    // 0 for a variable
}

// String returns "FILE:LINE", the name of the variable, or "" for the default.
func (s Source) String() string {
	if s.Line == 0 {
		return s.File
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// Sources are where each key was set, by its path. Keys that have their default are not
// in it.
type Sources map[string]Source

// Lay returns the defaults, the files over them in their order, and the environment
// over all, as [Load] does.
func Lay(files []File, environ []string) (Config, Sources, error) {
	l := loader{config: Defaults(environ), files: files, set: make(map[string]source), unread: make(map[string]bool)}
	for i := range files {
		l.readFile(i)
	}
	l.readEnvironment(environ)
	for _, f := range l.config.faults() {
		if f.also != "" && l.from(f.also).rank > l.from(f.path).rank {
			f.path = f.also // reported where the later of the two is set
		}
		if !l.unread[f.path] {
			l.report(l.from(f.path), f)
		}
	}
	if err := l.error(); err != nil {
		return Config{}, nil, err
	}
	l.config.Admin.Socket = l.config.AdminSocket()
	l.config.Journal.HardSize = l.config.Journal.HardLimit()
	sources := make(Sources, len(l.set))
	for path, at := range l.set {
		sources[path] = at.Source
	}
	return l.config, sources, nil
}

// source is where something is, and when it was read: defaults have the rank -2, the
// environment -1, files their index.
type source struct {
	Source
	rank int
}

// order is the place of a source among the problems: files, the environment, defaults.
func (s source) order() int {
	if s.rank >= 0 {
		return s.rank
	}
	return maxParts + 1 - s.rank
}

// loader gathers the values and the problems of one [Lay].
type loader struct {
	config Config
	files  []File
	set    map[string]source // where each key was set, by its path
	unread map[string]bool   // keys whose value is of the wrong type, by path
	found  []found
}

// found is a problem with its place among the others.
type found struct {
	tomlfile.Problem
	order int
}

// from returns where a key was set.
func (l *loader) from(path string) source {
	if at, set := l.set[path]; set {
		return at
	}
	return source{rank: -2}
}

func (l *loader) report(at source, f fault) {
	p := tomlfile.Problem{File: at.File, Line: at.Line, Text: f.what}
	if f.path != "" {
		p.Text = f.path + ": " + f.what
	}
	l.found = append(l.found, found{p, at.order()})
}

// decoding reports that a file is no TOML.
func (l *loader) decoding(index int, err error) {
	if e, ok := errors.AsType[*tomlfile.Error](err); ok {
		for _, p := range e.Problems {
			l.found = append(l.found, found{p, index})
		}
	}
}

// note notes where the key at path was set and what is wrong with its value.
func (l *loader) note(path string, at source, err error) {
	l.set[path] = at
	delete(l.unread, path)
	if err != nil {
		l.unread[path] = true
		l.report(at, fault{path: path, what: err.Error()})
	}
}

// error returns the problems in the order of the files, then of the environment, then
// those of no place; nil where there are none.
func (l *loader) error() error {
	slices.SortStableFunc(l.found, func(a, b found) int {
		return cmp.Compare(a.order, b.order)
	})
	problems := make([]tomlfile.Problem, len(l.found))
	for i, f := range l.found {
		problems[i] = f.Problem
	}
	return tomlfile.Report(problems) //nolint:wrapcheck // it names files and variables
}

// readEnvironment lays the variables over what is there.
func (l *loader) readEnvironment(environ []string) {
	byVariable := make(map[string]key)
	for _, k := range keys() {
		byVariable[k.variable()] = k
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(variable, prefix) || slices.Contains(ofCommandLine(), variable) {
			continue
		}
		at := source{Source{File: variable}, -1}
		k, known := byVariable[variable]
		if !known {
			if what := unknownVariable(variable); what != "" {
				l.report(at, fault{what: what})
			}
			continue
		}
		l.note(k.path, at, k.words(assignText(k.field(&l.config), text)))
	}
}

// lookup returns the value of a variable; the last one counts, as for a process.
func lookup(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if variable, value, _ := strings.Cut(entry, "="); variable == name {
			return value
		}
	}
	return ""
}
