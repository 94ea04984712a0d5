package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"
)

// maxUnknown bounds how many unknown keys are reported, because each is looked
// up in the text.
const maxUnknown = 20

// readFile lays the keys of the file with that index over what stands.
func (l *loader) readFile(index int) {
	f := file{loader: l, index: index, only: l.files[index].Only, byPath: make(map[string]key)}
	var top map[string]toml.Primitive
	var err error
	f.meta, err = toml.Decode(string(l.files[index].Text), &top)
	if parse, ok := errors.AsType[toml.ParseError](err); ok {
		f.complain(max(1, parse.Position.Line), oneLine(parse.Message))
		return
	}
	if err != nil {
		f.complain(1, err.Error())
		return
	}
	for _, k := range keys() {
		f.byPath[k.path] = k
	}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		f.readTop(name, top[name])
	}
}

// file is the decoding of one file.
type file struct {
	*loader
	index   int
	only    []string
	meta    toml.MetaData
	byPath  map[string]key
	unknown int
}

func (f *file) complain(line int, what string) {
	f.report(source{file: f.index, line: line}, fault{what: what})
}

// readTop reads a key outside any section, or a section.
func (f *file) readTop(name string, at toml.Primitive) {
	switch {
	case f.only != nil && !slices.Contains(f.only, name):
	case slices.Contains(sections(), name):
		f.readSection(name, at)
	case f.isSection(at):
		f.reportUnknown(at, unknownSection(name))
	default:
		f.readKey("", name, at)
	}
}

func (f *file) isSection(at toml.Primitive) bool {
	switch f.value(at).(type) {
	case map[string]any, []map[string]any:
		return true
	default:
		return false
	}
}

func (f *file) readSection(section string, at toml.Primitive) {
	if _, ok := f.value(at).(map[string]any); !ok {
		f.complain(f.line(at), fmt.Sprintf("%s is a section: write [%s] on a line of its own, once", section, section))
		return
	}
	var inside map[string]toml.Primitive
	if err := f.meta.PrimitiveDecode(at, &inside); err != nil {
		f.complain(f.line(at), err.Error())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		f.readKey(section, name, inside[name])
	}
}

func (f *file) readKey(section, name string, at toml.Primitive) {
	path := name
	if section != "" {
		path = section + "." + name
	}
	k, known := f.byPath[path]
	if !known || k.section() != section {
		f.reportUnknown(at, unknownKey(section, name))
		return
	}
	f.take(path, source{file: f.index, line: f.line(at)}, k.words(assign(k.field(&f.config), f.value(at))))
}

func (f *file) reportUnknown(at toml.Primitive, what string) {
	f.unknown++
	if f.unknown <= maxUnknown {
		f.complain(f.line(at), what)
	}
}

// value gives what the file says, as the TOML library's own types.
func (f *file) value(at toml.Primitive) any {
	var value any
	if err := f.meta.PrimitiveDecode(at, &value); err != nil {
		return nil // cannot happen: any holds every value
	}
	return value
}

// line finds the line of a value. The library tells positions only in errors, so
// decode it into a type that always fails. A section without a line of its own
// ("http.listen = …") stands where a key in it does.
func (f *file) line(at toml.Primitive) int {
	const deepest = 8
	for range deepest {
		err := f.meta.PrimitiveDecode(at, &unreadable{})
		if parse, ok := errors.AsType[toml.ParseError](err); ok && parse.Position.Line > 0 {
			return parse.Position.Line
		}
		var inside map[string]toml.Primitive
		if f.meta.PrimitiveDecode(at, &inside) != nil || len(inside) == 0 {
			break
		}
		at = inside[slices.Min(slices.Collect(maps.Keys(inside)))]
	}
	return 1
}

// unreadable refuses every TOML value.
type unreadable struct{}

var errUnreadable = errors.New("unreadable")

// UnmarshalTOML implements [toml.Unmarshaler].
func (*unreadable) UnmarshalTOML(any) error { return errUnreadable }
