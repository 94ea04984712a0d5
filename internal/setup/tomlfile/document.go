package tomlfile

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"gatehouse/internal/site"
)

// maxDepth is how deep keys, tables and arrays may nest. No valid file comes near; the
// bound keeps the recursion below shallow.
const maxDepth = 32

// Document is a decoded file.
type Document struct {
	Name string // of the file, as its problems call it
	Root *Node  // the table at the top
	raw  map[string]any
}

// Node is one value of a document: a table, an array or a single value.
type Node struct {
	Line  int              // in which it begins; counts from 1
	Keys  map[string]*Node // of a table; else nil
	Items []*Node          // of an array; else nil
	Value any              // of any other: string, bool, int64, float64, time.Time or Local
}

// Local is a date or a time without an offset from UTC, as the file has it.
type Local string

// Names returns the keys of a table in alphabetical order.
func (n *Node) Names() []string { return slices.Sorted(maps.Keys(n.Keys)) }

// Decode reads the text of the file that problems call name. Its error is an [*Error]
// with one problem: a text that is no TOML has no values to look at.
func Decode(name string, text []byte) (*Document, error) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if p := checkText(text); p != nil {
		return nil, refused(name, *p)
	}
	w := walker{root: &Node{Line: 1, Keys: map[string]*Node{}}, text: text, line: 1}
	if line := w.walk(); line > 0 {
		return nil, refused(name, Problem{Line: line, Text: "brackets or keys are nested too deeply"})
	}
	d := &Document{Name: name, Root: w.root, raw: map[string]any{}}
	if err := toml.Unmarshal(text, &d.raw); err != nil {
		return nil, refused(name, syntaxProblem(err, text))
	}
	d.Root.fill(d.raw)
	return d, nil
}

func refused(name string, p Problem) error {
	p.File = name
	return &Error{[]Problem{p}}
}

// fill adds the values to the nodes, which know their lines already.
func (n *Node) fill(value any) {
	switch value := value.(type) {
	case map[string]any:
		if n.Keys == nil {
			n.Keys = map[string]*Node{}
		}
		for name, inner := range value {
			n.enter(name, n.Line).fill(inner)
		}
	case []any:
		for len(n.Items) < len(value) {
			n.Items = append(n.Items, &Node{Line: n.Line})
		}
		if n.Items == nil {
			n.Items = []*Node{}
		}
		for i, inner := range value {
			n.Items[i].fill(inner)
		}
	case toml.LocalDate:
		n.Value = Local(value.String())
	case toml.LocalDateTime:
		n.Value = Local(value.String())
	case toml.LocalTime:
		n.Value = Local(value.String())
	default:
		n.Value = value
	}
}

// enter returns the node of a key, with that line where it is new. In an array of tables
// a key belongs to the last element (TOML 1.0, "Array of Tables").
func (n *Node) enter(name string, line int) *Node {
	if len(n.Items) > 0 {
		n = n.Items[len(n.Items)-1]
	}
	if n.Keys == nil {
		n.Keys = map[string]*Node{}
	}
	if n.Keys[name] == nil {
		n.Keys[name] = &Node{Line: line}
	}
	return n.Keys[name]
}

// walker makes the nodes of a text with their lines.
type walker struct {
	parser unstable.Parser
	root   *Node
	text   []byte
	offset int // up to which lines were counted
	line   int // there
}

// walk visits every expression. It returns the line of one that nests too deeply, else 0.
// It stops at what is no TOML, which the decoder reports.
func (w *walker) walk() (tooDeep int) {
	w.parser.Reset(w.text)
	table := w.root
	for w.parser.NextExpression() {
		e := w.parser.Expression()
		fits := true
		switch e.Kind {
		case unstable.Table:
			table, fits = w.follow(w.root, e.Key(), 0)
		case unstable.ArrayTable:
			if table, fits = w.follow(w.root, e.Key(), 0); fits {
				item := &Node{Line: w.line, Keys: map[string]*Node{}}
				table.Items = append(table.Items, item)
				table = item
			}
		case unstable.KeyValue:
			fits = w.assign(table, e, 0)
		}
		if !fits {
			return w.line
		}
	}
	return 0
}

// follow enters the parts of a dotted key; ok is false where it nests too deeply.
func (w *walker) follow(n *Node, key unstable.Iterator, depth int) (_ *Node, ok bool) {
	for key.Next() {
		if depth++; depth > maxDepth {
			return nil, false
		}
		n = n.enter(string(key.Node().Data), w.lineOf(key.Node()))
	}
	return n, true
}

// assign visits "key = value" within a table.
func (w *walker) assign(table *Node, e *unstable.Node, depth int) (ok bool) {
	n, ok := w.follow(table, e.Key(), depth)
	return ok && w.value(n, e.Value(), depth+1)
}

// value visits what lies within a value.
func (w *walker) value(n *Node, v *unstable.Node, depth int) (ok bool) {
	if depth > maxDepth {
		return false
	}
	for it := v.Children(); it.Next(); {
		switch v.Kind {
		case unstable.Array:
			item := &Node{Line: w.lineOf(it.Node())}
			n.Items = append(n.Items, item)
			ok = w.value(item, it.Node(), depth+1)
		case unstable.InlineTable:
			ok = w.assign(n, it.Node(), depth+1)
		}
		if !ok {
			return false
		}
	}
	return true
}

// lineOf returns the line of a node. Nodes come in the order of the text, so each line is
// counted once; one without a position is in the line of the node before.
func (w *walker) lineOf(n *unstable.Node) int {
	if at := int(n.Raw.Offset); n.Raw.Length > 0 && at > w.offset {
		w.line += bytes.Count(w.text[w.offset:at], []byte("\n"))
		w.offset = at
	}
	return w.line
}

// Redacted returns the document as a text without its secrets: what is under the
// name of a password, secret, token or the like is empty, and comments, in which old ones
// may stand, are left out.
func (d *Document) Redacted() ([]byte, error) { return encode(redact(d.raw, false)) }

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
			value, given := d.raw[name]
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
