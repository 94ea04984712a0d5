package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

const (
	// systemFile is read where no file is named and this one exists.
	systemFile = "/etc/gatehouse/gatehouse.toml"

	// prefix begins every variable of the gateway.
	prefix = "GATEHOUSE_"

	// fileVariable names the file.
	fileVariable = prefix + "CONFIG"

	// maxFile bounds what is read: the annotated file is a tenth of it.
	maxFile = 64 << 10
)

// ofCommandLine are variables that set no key: the command line reads them.
func ofCommandLine() []string {
	return []string{fileVariable, prefix + "SOCKET", prefix + "PASSPHRASE"}
}

// Load gives the defaults, the file over them and the environment over both.
// The file is path, else the one that GATEHOUSE_CONFIG names, else
// /etc/gatehouse/gatehouse.toml where that exists; a file that is named must
// exist. environ has the form of [os.Environ]. The error is an [*Error] with all
// that is wrong, or says why the file cannot be read. The result is valid and its
// Admin.Socket is set.
func Load(path string, environ []string) (Config, error) {
	path = cmp.Or(path, lookup(environ, fileVariable))
	text, err := read(cmp.Or(path, systemFile))
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return Parse("", nil, environ)
	}
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(cmp.Or(path, systemFile), text, environ)
}

// Parse is [Load] of a file that was read already; name stands in the problems.
func Parse(name string, text []byte, environ []string) (Config, error) {
	l := loader{config: Defaults(environ), file: name, set: make(map[string]source), unread: make(map[string]bool)}
	l.readFile(text)
	l.readEnvironment(environ)
	for _, f := range l.config.faults() {
		if !l.unread[f.path] {
			l.report(l.set[f.path], f)
		}
	}
	if len(l.found) > 0 {
		return Config{}, l.error()
	}
	l.config.Admin.Socket = l.config.AdminSocket()
	return l.config, nil
}

// read gives the bytes of the file at path.
func read(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // whoever starts the gateway names its file
	if err != nil {
		return nil, err //nolint:wrapcheck // Load does, and the error names the file
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no configuration", path, maxFile)
	}
	return text, nil
}

// source says where something stands; a line or a variable, else the default.
type source struct {
	line     int
	variable string
}

// loader gathers the values and the problems of one [Parse].
type loader struct {
	config Config
	file   string
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
	l.found = append(l.found, found{at, problem(cmp.Or(l.where(at), f.path), f)})
}

// take keeps where the key at path was set and what was wrong with its value.
func (l *loader) take(path string, at source, err error) {
	l.set[path] = at
	delete(l.unread, path)
	if err != nil {
		l.unread[path] = true
		l.report(at, fault{path, err.Error()})
	}
}

// where names a source; the empty text is the default.
func (l *loader) where(at source) string {
	switch {
	case at.variable != "":
		return at.variable
	case at.line > 0:
		return fmt.Sprintf("%s:%d", l.file, at.line)
	default:
		return ""
	}
}

// error gives the problems in the order of the file, then of the environment,
// then those of no place.
func (l *loader) error() error {
	slices.SortStableFunc(l.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.at.variable, b.at.variable), cmp.Compare(a.at.line, b.at.line))
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
			l.report(source{variable: variable}, fault{what: unknownVariable(variable)})
			continue
		}
		l.take(k.path, source{variable: variable}, assignText(k.field(&l.config), text))
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
