package tomlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Read returns the content of a file of at most that many bytes. Its error names the file.
func Read(path string, most int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // named by the operator
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return text, nil
}

// byteOrderMark begins UTF-8 text that some Windows editors save.
const byteOrderMark = "\ufeff"

// isUTF16 reports whether a text has the mark of UTF-16, or is zero in every second byte
// of its start.
func isUTF16(text []byte) bool {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return true
	}
	start := text[:min(len(text), 64)&^1]
	return len(start) > 0 && 2*bytes.Count(start, []byte{0}) == len(start)
}

// syntaxProblem words an error of the decoder. A message of the decoder is shown only
// where it cannot repeat the text, which may be a password whose quotes were forgotten.
func syntaxProblem(err error, text []byte) Problem {
	e, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		return Problem{Text: "this is not a TOML file"}
	}
	line, _ := e.Position()
	return Problem{Line: max(line, 1), Text: "not valid TOML: " + hint(strings.TrimPrefix(e.Error(), "toml: "), lineOf(text, line))}
}

// hint returns what to do about a message of the decoder. source is the line that it is
// about.
func hint(message, source string) string {
	if strings.ContainsAny(source, "“”„‘’«»") && !strings.Contains(message, "escape") {
		return `write straight quotes (") instead of the curly ones`
	}
	for _, h := range []struct{ contains, words string }{
		{"UTF-8", "this is not UTF-8 text: save the file as UTF-8"},
		{"nested", "brackets or keys are nested too deeply"},
		{"already", message}, // names keys only
		{"should be a table", message},
		{"expected newline", "something follows the end of the value: put the whole text in quotes"},
		{"new lines", "a text in quotes must end in its line: is the closing quote missing?"},
		{"terminated", "a text in quotes must end in its line: is the closing quote missing?"},
		{"escape", `write a backslash within double quotes as \\`},
		{`character after \`, `write a backslash within double quotes as \\`},
		{"expected '", message},
		{"expected ]", message},
		{"start of key", "a key consists of letters, digits, - and _, or is in quotes"},
	} {
		if strings.Contains(message, h.contains) {
			return h.words
		}
	}
	return "a value that is neither true, false, a number nor a time needs quotes"
}

// lineOf returns a line of the text, "" where there is none.
func lineOf(text []byte, number int) string {
	for l := range bytes.Lines(text) {
		if number--; number == 0 {
			return string(l)
		}
	}
	return ""
}
