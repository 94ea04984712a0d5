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
	m, err := parse(name, data, nil, func(string) (string, error) {
		return "", errors.New("there is no folder to look for it; give the password itself")
	})
	return m.Site, err
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
	m, err := ParseMixed(path, data, nil)
	return m.Site, err
}

// Names lists what a site file has at its top.
func Names() []string { return []string{"timezone", tableAccount, tableStation, tableGrant} }

// Mixed is a site whose file may hold more than the site.
type Mixed struct {
	Site          Site
	PasswordFiles []string // the paths of those that it names
	lines         map[string]int
}

// Line gives the line of the value at a path such as "grant[0].account" or, where it
// is missing, of what it would lie in.
func (m Mixed) Line(path string) int { return lineOf(m.lines, path) }

// ParseMixed is [ParseFile] of data that was read from path already, and that may
// also have the names of foreign at its top: those belong to another parser.
func ParseMixed(path string, data []byte, foreign []string) (Mixed, error) {
	folder := filepath.Dir(path)
	var files []string
	m, err := parse(path, data, foreign, func(name string) (string, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(folder, name)
		}
		files = append(files, name)
		return readPassword(name)
	})
	m.PasswordFiles = files
	return m, err
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

func parse(name string, data []byte, foreign []string, open func(string) (string, error)) (Mixed, error) {
	if len(data) > MaxSize {
		return Mixed{}, unreadable(name, Problem{Text: fmt.Sprintf("the file is too large: at most %d MiB", MaxSize>>20)})
	}
	data = bytes.TrimPrefix(data, []byte(mark))
	if p := checkText(data); p != nil {
		return Mixed{}, unreadable(name, *p)
	}
	doc := map[string]any{}
	if _, err := toml.Decode(string(data), &doc); err != nil {
		return Mixed{}, unreadable(name, syntaxProblem(err))
	}
	r := &reader{lines: linesOf(string(data)), open: open, foreign: foreign, bad: map[string]bool{}}
	s := r.site(doc)
	c := &checker{report: func(p place, text string) { r.add(p.path(), "%s", text) }}
	c.check(s)
	if err := Report(name, r.problems); err != nil {
		return Mixed{}, err
	}
	return Mixed{Site: s, lines: r.lines}, nil
}

// mark is the mark that some editors put before UTF-8 text.
const mark = "\ufeff"

// checkText finds what the decoder would mistake or choke on.
func checkText(data []byte) *Problem {
	if isUTF16(data) {
		return &Problem{Line: 1, Text: "the file is saved as UTF-16: save it again as UTF-8 (in Notepad: Save as, Encoding, UTF-8)"}
	}
	if line := badLine(data); line > 0 {
		return &Problem{Line: line, Text: "this is not UTF-8 text: save the file as UTF-8"}
	}
	if depth, line := deepest(string(data)); depth > maxDepth {
		return &Problem{Line: line, Text: "brackets or keys are nested too deeply"}
	}
	return nil
}

// isUTF16 reports whether data is text in UTF-16: it has the mark of one, or every
// second byte of its start is zero.
func isUTF16(data []byte) bool {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return true
	}
	start := data[:min(len(data), 64)&^1]
	return len(start) > 0 && (2*bytes.Count(start, []byte{0}) == len(start))
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
		{"strings cannot", "a text in quotes must end in the line in which it begins: is the closing quote missing?"},
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
