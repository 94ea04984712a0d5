package main

import (
	"fmt"
	"os"
	"strings"
)

// manual makes gatehouse(1): what the program says of itself, set into the page that
// says the rest.
func (j job) manual() (string, error) {
	commands, err := readTree(j.binary, "gatehouse")
	if err != nil {
		return "", err
	}
	root := commands[0]
	var description, options, list, examples page
	description.prose(root.long)
	options.flags(root.flags)
	for _, c := range commands[1:] {
		list.command(c)
	}
	examples.verbatim(root.examples)
	return j.fill(manualFile, map[string]string{
		"DESCRIPTION": description.String(),
		"OPTIONS":     options.String(),
		"COMMANDS":    list.String(),
		"EXAMPLES":    examples.String(),
	})
}

// command writes what a command does and takes.
func (p *page) command(c command) {
	p.request(".SS %s", escaped(strings.TrimSuffix(c.usage, " [flags]")))
	p.prose(c.long)
	p.flags(c.flags)
	if c.examples != "" {
		p.request(".PP")
		p.request("For example:")
		p.request(".PP")
		p.verbatim(c.examples)
	}
}

// flags writes a list of flags.
func (p *page) flags(flags []flagHelp) {
	for _, f := range flags {
		p.request(".TP")
		name := `\fB` + escaped(f.name) + `\fR`
		if f.value != "" {
			name += ` \fI` + escaped(f.value) + `\fR`
		}
		p.request("%s", name)
		p.text(f.does)
	}
}

// fill sets values into a file in which @NAME@ is on a line of its own, and the
// version and the date anywhere.
func (j job) fill(file string, values map[string]string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	filled := strings.NewReplacer("@VERSION@", escaped(j.version), "@DATE@", j.time.Format("2006-01-02")).Replace(string(text))
	for name, value := range values {
		place := "@" + name + "@\n"
		if !strings.Contains(filled, place) {
			return "", fmt.Errorf("%s has no line %q", file, strings.TrimSpace(place))
		}
		filled = strings.Replace(filled, place, value, 1)
	}
	return filled, nil
}
