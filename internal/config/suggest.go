package config

import (
	"fmt"
	"slices"
	"strings"

	"gatehouse/internal/setup/tomlfile"
)

// unknownKey words that there is no such key in section, and which one is meant.
func unknownKey(section, name string) string {
	what := "unknown key " + tomlfile.Quote(name)
	if section != "" {
		what += " in [" + section + "]"
	}
	if meant := tomlfile.Nearest(name, namesIn(section)); meant != "" {
		return fmt.Sprintf("%s: did you mean %q?", what, meant)
	}
	for _, k := range keys() {
		if k.name() == name && k.section() == "" {
			return what + ": write it at the top of the file, before the first [section]"
		}
		if k.name() == name {
			return what + ": it belongs to [" + k.section() + "]"
		}
	}
	return what + ": remove it"
}

// unknownSection words that there is no such section, and which one is meant.
func unknownSection(name string) string {
	what := fmt.Sprintf("unknown section [%s]", tomlfile.Clip(name))
	if meant := tomlfile.Nearest(name, sections()); meant != "" {
		return fmt.Sprintf("%s: did you mean [%s]?", what, meant)
	}
	return what + ": remove it, or name one of " + strings.Join(sections(), ", ")
}

// nearestVariable returns the variable of a key that a name was most likely meant to be,
// or "": then the variable belongs to another program.
func nearestVariable(name string) string {
	names := make([]string, 0, len(keys()))
	for _, k := range keys() {
		names = append(names, strings.TrimPrefix(k.variable(), prefix))
	}
	if meant := tomlfile.Nearest(strings.TrimPrefix(name, prefix), names); meant != "" {
		return prefix + meant
	}
	return ""
}

// Foreign lists the variables that begin like those of the gateway and are ignored,
// because they belong to other programs.
func Foreign(environ []string) (names []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix) && !slices.Contains(ofCommandLine(), name) && nearestVariable(name) == "" {
			names = append(names, name)
		}
	}
	return names
}

// Names lists what may be at the top of a configuration: keys outside any section, and
// sections.
func Names() []string { return append(namesIn(""), sections()...) }

func namesIn(section string) []string {
	var names []string
	for _, k := range keys() {
		if k.section() == section {
			names = append(names, k.name())
		}
	}
	return names
}

func sections() []string {
	var names []string
	for _, k := range keys() {
		if s := k.section(); s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}
