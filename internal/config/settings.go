package config

import (
	"gatehouse/internal/setup/tomlfile"
)

// Names lists what may be at the top of a configuration: keys outside any section, and
// sections.
func Names() []string { return append(namesIn(""), sections()...) }

// Settings are keys of the configuration that were taken out of other files.
type Settings struct {
	Document *tomlfile.Document // the decoded Text
	Text     []byte             // a file of the configuration with these keys and nothing else
	Secret   bool               // whether a value among them is a secret
}

// Extract copies the keys and sections of these names from documents that [Lay] has read
// without a problem; those of a later document win. The text begins with head, and
// problems call it name. The same keys and values make the same text.
func Extract(name, head string, names []string, documents ...*tomlfile.Document) (Settings, error) {
	text, err := tomlfile.Encode(tomlfile.Merge(names, documents...))
	if err != nil {
		return Settings{}, err //nolint:wrapcheck // it says what was done
	}
	s := Settings{Text: append([]byte(head), text...)}
	if s.Document, err = tomlfile.Decode(name, s.Text); err != nil {
		return Settings{}, err //nolint:wrapcheck // as above
	}
	for _, k := range keys() {
		if n := nodeOf(s.Document, k.path); n != nil && n.Value != "" && k.secret() {
			s.Secret = true
		}
	}
	return s, nil
}

// KeyAt returns the key that is set in a line of the settings, "" for none.
func (s Settings) KeyAt(line int) string {
	if s.Document == nil {
		return ""
	}
	for _, k := range keys() {
		if n := nodeOf(s.Document, k.path); n != nil && n.Line == line {
			return k.path
		}
	}
	return ""
}

// nodeOf returns the value of a key in a document, nil where it is not set.
func nodeOf(d *tomlfile.Document, path string) *tomlfile.Node {
	section, name := split(path)
	table := d.Root
	if section != "" {
		if table = table.Keys[section]; table == nil {
			return nil
		}
	}
	return table.Keys[name]
}
