package sitefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// MaxSize is the largest site file, in bytes: room for tens of thousands of
// stations.
const MaxSize = 4 << 20

// maxDepth is how deep brackets and keys may nest; no valid site file comes near.
const maxDepth = 32

// maxPasswordFile bounds a password file, in bytes.
const maxPasswordFile = 4 << 10

// Parse reads and checks a site file; name is what its problems call it. It reads
// no other file: a password_file is a problem here (see [ParseFile]). Its error is
// an [*Error] with every problem that was found.
func Parse(name string, data []byte) (Site, error) {
	return parse(name, data, func(string) (string, error) {
		return "", errors.New("there is no folder to look for it; give the password itself")
	})
}

// ParseFile reads and checks the site file at path; the paths of password files
// are relative to its folder. Its error is an [*Error], or that of reading path.
func ParseFile(path string) (Site, error) {
	file, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		return Site{}, fmt.Errorf("reading the site file: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return Site{}, fmt.Errorf("reading the site file: %w", err)
	}
	folder := filepath.Dir(path)
	return parse(path, data, func(name string) (string, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(folder, name)
		}
		return readPassword(name)
	})
}

// readPassword reads a small regular file; anything else might never end.
func readPassword(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", cause(err)
	case !info.Mode().IsRegular():
		return "", errors.New(path + " is not a regular file")
	case info.Size() > maxPasswordFile:
		return "", fmt.Errorf("%s is longer than %d bytes", path, maxPasswordFile)
	}
	data, err := os.ReadFile(path) //nolint:gosec // named by the caller's own file
	if err != nil {
		return "", cause(err)
	}
	if !utf8.Valid(data) {
		return "", errors.New(path + " is not UTF-8 text")
	}
	return string(data), nil
}

// cause words an error of the file system without the name of the system call.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

func parse(name string, data []byte, open func(string) (string, error)) (Site, error) {
	if len(data) > MaxSize {
		return Site{}, Report(name, []Problem{{Text: fmt.Sprintf("the file is too large: at most %d MiB", MaxSize>>20)}})
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if p := checkText(data); p != nil {
		return Site{}, Report(name, []Problem{*p})
	}
	doc := map[string]any{}
	if _, err := toml.Decode(string(data), &doc); err != nil {
		return Site{}, Report(name, []Problem{syntaxProblem(err)})
	}
	r := &reader{lines: linesOf(string(data)), open: open, bad: map[string]bool{}}
	s := r.site(doc)
	c := &checker{report: func(p place, text string) { r.add(p.path(), "%s", text) }}
	c.check(s)
	if err := Report(name, r.problems); err != nil {
		return Site{}, err
	}
	return s, nil
}

// checkText finds what the decoder would mistake or choke on.
func checkText(data []byte) *Problem {
	if line := badLine(data); line > 0 {
		return &Problem{Line: line, Text: "this is not UTF-8 text: save the file as UTF-8"}
	}
	if depth, line := deepest(string(data)); depth > maxDepth {
		return &Problem{Line: line, Text: "brackets or keys are nested too deeply"}
	}
	return nil
}

// badLine gives the first line that is not UTF-8 text, or 0.
func badLine(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
			return i + 1
		}
	}
	return 0
}

// syntaxProblem words an error of the decoder.
func syntaxProblem(err error) Problem {
	e, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		return Problem{Text: "this is not a TOML file"}
	}
	return Problem{Line: max(e.Position.Line, 1), Text: "not valid TOML: " + withoutSource(e.Message)}
}

// withoutSource cuts from a message of the decoder the text that it stumbled
// over, because that may be a password whose quotes were forgotten.
func withoutSource(message string) string {
	const quoting = "a value that is neither true, false, a number nor a time must stand in quotes"
	lower := strings.ToLower(message)
	for _, w := range []struct{ start, words string }{
		{"key '", "k" + strings.TrimPrefix(message, "K")}, // names keys only
		{"invalid escape", `a backslash within double quotes is written \\`},
		{"escaped character", `a backslash within double quotes is written \\`},
		{"expected two hex", `a backslash within double quotes is written \\`},
		{"expected four hex", `a backslash within double quotes is written \\`},
		{"expected eight hex", `a backslash within double quotes is written \\`},
		{"expected value", quoting},
		{"expected a digit", quoting},
		{"expected a top-level item", "something follows the end of the value: a text stands in quotes as a whole"},
		{"invalid integer", quoting},
		{"invalid float", quoting},
		{"invalid datetime", quoting},
		{"cannot use sign", quoting},
		{"not a", quoting},      // binary, octal, hexadecimal
		{"unexpected", message}, // names one sign, or the end of the file
		{"strings cannot", message},
		{"floats must", quoting},
		{"newlines not", message},
	} {
		if strings.HasPrefix(lower, w.start) {
			return w.words
		}
	}
	message, _, _ = strings.Cut(message, " but got")
	message, _, _ = strings.Cut(message, ": ")
	if strings.Contains(message, "out of") { // the number itself comes first
		return "a number is out of range"
	}
	return strings.TrimSuffix(message, ",")
}
