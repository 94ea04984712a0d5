package config

import (
	"errors"
	"fmt"
	"maps"
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
)

// ofCommandLine are variables that set no key: the command line reads them.
func ofCommandLine() []string {
	return []string{fileVariable, prefix + "SOCKET", prefix + "PASSPHRASE"}
}

// Load returns the defaults, the files over them in the order of [Files], and the
// environment over all. environ has the form of [os.Environ]. The error is a
// [*tomlfile.Error] with all that is wrong, or that of a file that cannot be read. The
// result is valid, and its Admin.Socket and Journal.HardSize are set.
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
	l := loader{config: Defaults(environ), sources: Sources{}}
	for _, f := range files {
		l.readFile(f)
	}
	l.readEnvironment(environ)
	for _, f := range l.config.faults() {
		if _, set := l.sources[f.path]; !set && f.also != "" {
			f.path = f.also
		}
		l.report(l.sources[f.path], f)
	}
	if err := tomlfile.Report(l.problems); err != nil {
		return Config{}, nil, err //nolint:wrapcheck // it names files and variables
	}
	l.config.Admin.Socket = l.config.AdminSocket()
	l.config.Journal.HardSize = l.config.Journal.HardLimit()
	return l.config, l.sources, nil
}

// loader gathers the values and the problems of one [Lay].
type loader struct {
	config   Config
	sources  Sources
	problems []tomlfile.Problem
}

func (l *loader) report(at Source, f fault) {
	p := tomlfile.Problem{File: at.File, Line: at.Line, Text: f.what}
	if f.path != "" {
		p.Text = f.path + ": " + f.what
	}
	l.problems = append(l.problems, p)
}

// note notes where the key at path was set and what is wrong with its value.
func (l *loader) note(path string, at Source, err error) {
	l.sources[path] = at
	if err != nil {
		l.report(at, fault{path: path, what: err.Error()})
	}
}

// readFile lays the keys of a file over what is there.
func (l *loader) readFile(f File) {
	d := f.Document
	if d == nil {
		var err error
		d, err = tomlfile.Decode(f.Name, f.Text)
		if e, ok := errors.AsType[*tomlfile.Error](err); ok {
			l.problems = append(l.problems, e.Problems...)
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Values)) {
		if f.Only != nil && !slices.Contains(f.Only, name) {
			continue
		}
		section, isTable := d.Values[name].(map[string]any)
		isSection := slices.Contains(sections(), name)
		at := Source{File: f.Name, Line: d.Line(name)}
		switch {
		case isSection && isTable:
			for _, key := range slices.Sorted(maps.Keys(section)) {
				l.readKey(Source{File: f.Name, Line: d.Line(name, key)}, name, key, section[key])
			}
		case isSection:
			l.report(at, fault{what: fmt.Sprintf("%s is a section: write [%s] on a line of its own, once", name, name)})
		case isTable:
			l.report(at, fault{what: unknownSection(name)})
		default:
			l.readKey(at, "", name, d.Values[name])
		}
	}
}

func (l *loader) readKey(at Source, section, name string, value any) {
	i := slices.IndexFunc(keys(), func(k key) bool { return k.section() == section && k.name() == name })
	if i < 0 {
		l.report(at, fault{what: unknownKey(section, name)})
		return
	}
	k := keys()[i]
	l.note(k.path, at, k.words(assign(k.field(&l.config), value)))
}

// readEnvironment lays the variables over what is there.
func (l *loader) readEnvironment(environ []string) {
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(variable, prefix) || slices.Contains(ofCommandLine(), variable) {
			continue
		}
		at := Source{File: variable}
		i := slices.IndexFunc(keys(), func(k key) bool { return k.variable() == variable })
		if i < 0 {
			if meant := nearestVariable(variable); meant != "" {
				l.report(at, fault{what: "unknown variable: did you mean " + meant + "?"})
			}
			continue
		}
		k := keys()[i]
		l.note(k.path, at, k.words(assignText(k.field(&l.config), text)))
	}
}

// Lookup returns the value of a variable; the last one counts, as for a process. "" where
// it is not set.
func Lookup(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if variable, value, _ := strings.Cut(entry, "="); variable == name {
			return value
		}
	}
	return ""
}
