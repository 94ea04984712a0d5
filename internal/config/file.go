package config

import (
	"errors"
	"fmt"
	"slices"

	"gatehouse/internal/setup/tomlfile"
)

// keyTimeZone may also be written as site files write it.
const (
	keyTimeZone      = "time_zone"
	siteFileTimeZone = "timezone"
)

// readFile lays the keys of a file over what is there.
func (l *loader) readFile(in File) {
	f := file{loader: l, File: in}
	if f.Document == nil {
		d, err := tomlfile.Decode(f.Name, f.Text)
		if e, ok := errors.AsType[*tomlfile.Error](err); ok {
			l.problems = append(l.problems, e.Problems...)
			return
		}
		f.Document = d
	}
	for _, name := range f.Document.Root.Names() {
		if f.Only == nil || slices.Contains(f.Only, name) {
			f.readTop(name, f.Document.Root.Keys[name])
		}
	}
}

// file is one file that is being read.
type file struct {
	*loader
	File
}

func (f *file) complain(n *tomlfile.Node, what string) {
	f.report(f.at(n), fault{what: what})
}

func (f *file) at(n *tomlfile.Node) Source { return Source{File: f.Name, Line: n.Line} }

// readTop reads a key outside any section, or a section.
func (f *file) readTop(name string, n *tomlfile.Node) {
	isList := len(n.Items) > 0 && n.Items[0].Keys != nil
	switch {
	case slices.Contains(sections(), name):
		f.readSection(name, n)
	case n.Keys != nil || isList:
		f.complain(n, unknownSection(name))
	case name == siteFileTimeZone && f.Only == nil:
		if f.Document.Root.Keys[keyTimeZone] != nil {
			f.complain(n, "timezone and time_zone mean the same: keep one of the two")
		}
		f.readKey("", keyTimeZone, n)
	default:
		f.readKey("", name, n)
	}
}

func (f *file) readSection(section string, n *tomlfile.Node) {
	if n.Keys == nil {
		f.complain(n, fmt.Sprintf("%s is a section: write [%s] on a line of its own, once", section, section))
		return
	}
	for _, name := range n.Names() {
		f.readKey(section, name, n.Keys[name])
	}
}

func (f *file) readKey(section, name string, n *tomlfile.Node) {
	i := slices.IndexFunc(keys(), func(k key) bool { return k.section() == section && k.name() == name })
	if i < 0 {
		f.complain(n, unknownKey(section, name))
		return
	}
	k := keys()[i]
	f.note(k.path, f.at(n), k.words(assign(k, k.field(&f.config), n)))
}
