package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"
)

// Names lists what may stand at the top of a configuration: keys outside any
// section, and sections.
func Names() []string { return slices.Concat(namesIn(""), sections()) }

// Settings are the keys of the configuration that stood in other files.
type Settings struct {
	Text   []byte // a file of the configuration with these keys and nothing else; empty without any
	Secret bool   // whether a value among them is one that nobody may see
}

// Extract takes the settings out of files that [Lay] has read without a problem; those
// of a later file win. What stands at the top of a file beside its Only is left behind,
// as are comments. The same keys and values give the same text.
func Extract(files ...File) (Settings, error) {
	all := make(map[string]any)
	for _, f := range files {
		var top map[string]any
		if _, err := toml.Decode(string(f.Text), &top); err != nil {
			return Settings{}, fmt.Errorf("reading the settings in %s: %w", f.Name, err)
		}
		for name, value := range top {
			if f.Only == nil || slices.Contains(f.Only, name) {
				all[name] = over(all[name], value)
			}
		}
	}
	if len(all) == 0 {
		return Settings{}, nil
	}
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(all); err != nil {
		return Settings{}, fmt.Errorf("writing the settings: %w", err)
	}
	return Settings{Text: text.Bytes(), Secret: hasSecret(all)}, nil
}

// over lays a value over the one before it: of sections, key by key.
func over(before, value any) any {
	old, ok := before.(map[string]any)
	section, is := value.(map[string]any)
	if !ok || !is {
		return value
	}
	maps.Copy(old, section)
	return old
}

// hasSecret reports whether a key of secret value has one.
func hasSecret(top map[string]any) bool {
	return slices.ContainsFunc(keys(), func(k key) bool {
		inside := top
		if k.section() != "" {
			inside, _ = top[k.section()].(map[string]any)
		}
		value, is := inside[k.name()]
		return is && value != "" && k.secret()
	})
}
