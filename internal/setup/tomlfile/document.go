package tomlfile

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"gatehouse/internal/site"
)

// maxDepth is how deep keys, tables and arrays may nest. No valid file comes near; the
// bound keeps recursion over the values shallow.
const maxDepth = 32

// Document is a decoded file.
type Document struct {
	Name   string         // of the file, as its problems call it
	Values map[string]any // as go-toml decodes them
	lines  map[string]int // by [pathOf]
}

// Decode reads the text of the file that problems call name. Its error is an [*Error]
// with one problem: a text that is no TOML has no values to look at.
func Decode(name string, text []byte) (*Document, error) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if isUTF16(text) {
		return nil, refused(name, Problem{Line: 1, Text: "the file is saved as UTF-16: save it again as UTF-8 (in Notepad: Save as, Encoding, UTF-8)"})
	}
	d := &Document{Name: name, Values: map[string]any{}, lines: map[string]int{}}
	if line := d.index(text); line > 0 {
		return nil, refused(name, Problem{Line: line, Text: "brackets or keys are nested too deeply"})
	}
	if err := toml.Unmarshal(text, &d.Values); err != nil {
		return nil, refused(name, syntaxProblem(err, text))
	}
	return d, nil
}

func refused(name string, p Problem) error {
	p.File = name
	return &Error{[]Problem{p}}
}

// Line returns the line in which a value begins, by the keys that lead to it; an element
// of an array of tables has its number as a key, from "0". A value within another value
// has the line of that one.
func (d *Document) Line(path ...string) int {
	for ; len(path) > 0; path = path[:len(path)-1] {
		if line := d.lines[pathOf(path...)]; line > 0 {
			return line
		}
	}
	return 1
}

// pathOf joins keys, which may be any text, to the name of a value.
func pathOf(keys ...string) (path string) {
	for _, key := range keys {
		path += strconv.Quote(key)
	}
	return path
}

// index notes the line of every key and table. It returns the line of one that nests too
// deeply, else 0. It stops at what is no TOML, which the decoder reports.
func (d *Document) index(text []byte) (refused int) {
	var parser unstable.Parser
	parser.Reset(text)
	tables := map[string]int{} // how many elements each array of tables has
	table, line, counted := "", 1, 0
	for parser.NextExpression() {
		e := parser.Expression()
		path := table
		if e.Kind != unstable.KeyValue {
			path = ""
		}
		deep := tooDeep(e, 0)
		for key := e.Key(); key.Next(); {
			if at := int(key.Node().Raw.Offset); at > counted { // keys come in the order of the text
				line += bytes.Count(text[counted:at], []byte("\n"))
				counted = at
			}
			if deep {
				return line
			}
			if n := tables[path]; n > 0 { // the last element (TOML 1.0, "Array of Tables")
				path += pathOf(strconv.Itoa(n - 1))
			}
			path += pathOf(string(key.Node().Data))
			if d.lines[path] == 0 {
				d.lines[path] = line
			}
		}
		if e.Kind == unstable.ArrayTable {
			tables[path]++
			d.lines[path+pathOf(strconv.Itoa(tables[path]-1))] = line
		}
		if e.Kind != unstable.KeyValue {
			table = path
		}
	}
	return 0
}

// tooDeep reports whether an expression or a value nests too deeply.
func tooDeep(n *unstable.Node, depth int) bool {
	switch {
	case depth > maxDepth:
		return true
	case n.Kind == unstable.KeyValue || n.Kind == unstable.Table || n.Kind == unstable.ArrayTable:
		for key := n.Key(); key.Next(); {
			depth++
		}
		return depth > maxDepth || n.Kind == unstable.KeyValue && tooDeep(n.Value(), depth)
	}
	for it := n.Children(); it.Next(); {
		if tooDeep(it.Node(), depth+1) {
			return true
		}
	}
	return false
}

// Redacted returns the document as a text without its secrets: what is under the
// name of a password, secret, token or the like is empty, and comments, in which old ones
// may stand, are left out.
func (d *Document) Redacted() ([]byte, error) { return encode(redact(d.Values, false)) }

// redact copies a value without its secrets. secret reports whether the value is
// under the name of one.
func redact(value any, secret bool) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = redact(inner, secret || site.IsSecretName(name))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = redact(inner, secret)
		}
		return out
	case bool:
		return v
	default:
		if secret {
			return ""
		}
		return v
	}
}

// Extract returns the values under these names at the top of the documents as TOML, and
// the same without its secrets as [Document.Redacted] does. Those of a later document win;
// of tables, key by key. The same values make the same text.
func Extract(names []string, documents ...*Document) (text, redacted []byte, err error) {
	all := map[string]any{}
	for _, d := range documents {
		for _, name := range names {
			value, given := d.Values[name]
			if !given {
				continue
			}
			section, isTable := value.(map[string]any)
			before, wasTable := all[name].(map[string]any)
			if isTable && wasTable {
				merged := maps.Clone(before)
				maps.Copy(merged, section)
				value = merged
			}
			all[name] = value
		}
	}
	if text, err = encode(all); err != nil {
		return nil, nil, err
	}
	redacted, err = encode(redact(all, false))
	return text, redacted, err
}

func encode(values any) ([]byte, error) {
	text, err := toml.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("writing TOML: %w", err)
	}
	return text, nil
}
