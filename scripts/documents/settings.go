package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// setting is a piece of the configuration file: a section's head, or keys that are
// together, with the comment before them; or a comment alone.
type setting struct {
	section string // "http", where a section begins
	keys    []key
	comment string
}

// key is one line of the configuration file.
type key struct {
	name, value string
	variable    string // of the environment
}

// isAside reports whether it is a comment alone.
func (s setting) isAside() bool { return s.section == "" && len(s.keys) == 0 }

// settings makes gatehouse.toml(5) of the annotated configuration file.
func (j job) settings() (string, error) {
	text, err := os.ReadFile(configFile)
	if err != nil {
		return "", err
	}
	all, err := parseSettings(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w", configFile, err)
	}
	first := slices.IndexFunc(all, func(s setting) bool { return len(s.keys) > 0 || s.section != "" })
	if first < 1 {
		return "", fmt.Errorf("%s: it has no keys, or says nothing before them", configFile)
	}
	var description, keys page
	for _, s := range all[:first] {
		description.prose(s.comment)
	}
	for i, s := range all[first:] {
		if s.isAside() && i > 0 && all[first+i-1].section == "" {
			keys.request(".PP") // it does not belong to the key before it
		}
		keys.setting(s)
	}
	return j.fill(settingsFile, map[string]string{"DESCRIPTION": description.String(), "KEYS": keys.String()})
}

func (p *page) setting(s setting) {
	if s.section != "" {
		p.request(".SS [%s]", escaped(s.section))
	}
	for i, k := range s.keys {
		tag := ".TP"
		if i > 0 {
			tag = ".TQ"
		}
		p.request("%s", tag)
		p.request(`\fB%s\fR = %s \ (%s)`, escaped(k.name), escaped(k.value), escaped(k.variable))
	}
	p.prose(s.comment)
}

var (
	sectionLine = regexp.MustCompile(`^\[([a-z.]+)\]$`)
	keyLine     = regexp.MustCompile(`^([a-z_]+) = (.+)$`)
)

// parseSettings takes the file apart. It knows no more of TOML than that file uses,
// and refuses the rest.
func parseSettings(text string) ([]setting, error) {
	var all []setting
	var now setting
	section, number := "", 0
	done := func() {
		if now.section != "" || now.comment != "" || len(now.keys) > 0 {
			all = append(all, now)
		}
		now = setting{}
	}
	for line := range strings.Lines(text + "\n") {
		number++
		line = strings.TrimRight(line, "\n ")
		head, one := sectionLine.FindStringSubmatch(line), keyLine.FindStringSubmatch(line)
		switch {
		case line == "":
			done()
		case strings.HasPrefix(line, "#"):
			if len(now.keys) > 0 || now.section != "" {
				done()
			}
			now.comment += strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ") + "\n"
		case head != nil:
			section, now.section = head[1], head[1]
		case one != nil:
			if now.section != "" {
				done()
			}
			now.keys = append(now.keys, key{name: one[1], value: one[2], variable: variable(section, one[1])})
		default:
			return nil, fmt.Errorf("line %d is neither a comment, nor a section, nor a key", number)
		}
	}
	done()
	return all, nil
}

// variable returns the name of the environment variable of a key.
func variable(section, name string) string {
	if section == "" {
		return "GATEHOUSE_" + strings.ToUpper(name)
	}
	return "GATEHOUSE_" + strings.ToUpper(section+"_"+name)
}
