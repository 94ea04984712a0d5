package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// command is a command of the command line, as its --help describes it.
type command struct {
	path     string // "gatehouse station add"
	long     string
	usage    string // "gatehouse station add --id N --locks N [flags]"
	examples string
	flags    []flagHelp // its own, but --help
	global   []flagHelp // those that every command takes; of the root, its own
	children []string   // the names of the commands within it
}

// flagHelp is a flag: "-v, --version", "" and what it does, or "--id", "N" and so on.
type flagHelp struct{ name, value, does string }

// The headings of a help text.
const (
	usageHeading    = "Usage:"
	examplesHeading = "Examples:"
	commandsHeading = "Available Commands:"
	flagsHeading    = "Flags:"
	globalHeading   = "Global Flags:"
)

// readTree asks the program for the help of the command at path, and of every one
// within it.
func readTree(binary string, path ...string) ([]command, error) {
	cmd := exec.Command(binary, append(path[1:], "--help")...)
	cmd.Env = []string{"HOME=/nonexistent"} // nobody's configuration
	help, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", strings.Join(path, " "), err)
	}
	c, err := parseHelp(strings.Join(path, " "), string(help))
	if err != nil {
		return nil, err
	}
	all := []command{c}
	for _, name := range c.children {
		below, err := readTree(binary, append(path[:len(path):len(path)], name)...)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

// parseHelp takes the help text of a command apart.
func parseHelp(path, help string) (command, error) {
	parts, err := sections(help)
	if err != nil {
		return command{}, fmt.Errorf("the help of %s: %w", path, err)
	}
	c := command{path: path, long: parts[""], examples: parts[examplesHeading]}
	// A command that only holds others has a second line, for those.
	c.usage, _, _ = strings.Cut(strings.TrimSpace(parts[usageHeading]), "\n")
	if !strings.HasPrefix(c.usage, path) {
		return command{}, fmt.Errorf("the help of %s does not say how it is used, but %q", path, c.usage)
	}
	for line := range strings.Lines(parts[commandsHeading]) {
		if fields := strings.Fields(line); len(fields) > 0 {
			c.children = append(c.children, fields[0])
		}
	}
	if c.flags, err = parseFlags(parts[flagsHeading]); err != nil {
		return command{}, fmt.Errorf("the help of %s: %w", path, err)
	}
	if c.global, err = parseFlags(parts[globalHeading]); err != nil {
		return command{}, fmt.Errorf("the help of %s: %w", path, err)
	}
	return c, nil
}

// sections returns the text under each heading; under "" the text before them.
func sections(help string) (map[string]string, error) {
	known := map[string]bool{
		usageHeading: true, examplesHeading: true, commandsHeading: true, flagsHeading: true, globalHeading: true,
	}
	parts, heading := make(map[string]string), ""
	for line := range strings.Lines(help) {
		trimmed := strings.TrimRight(line, "\n ")
		switch {
		case known[trimmed]:
			heading = trimmed
		case strings.HasPrefix(line, `Use "`) && strings.Contains(line, " --help"):
			return parts, nil // the hint at the end
		case heading != "" && trimmed != "" && !strings.HasPrefix(line, " "):
			return nil, fmt.Errorf("%q is no heading that is known here", trimmed)
		default:
			parts[heading] += line
		}
	}
	return parts, nil
}

var flagLine = regexp.MustCompile(`^\s+((?:-\w, )?--[\w-]+)(?: (\S+))?\s{2,}(\S.*)$`)

// parseFlags reads a list of flags, but --help.
func parseFlags(list string) ([]flagHelp, error) {
	var flags []flagHelp
	for line := range strings.Lines(list) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		parts := flagLine.FindStringSubmatch(line)
		if parts == nil {
			return nil, fmt.Errorf("%q is no flag", line)
		}
		if parts[1] != "-h, --help" {
			flags = append(flags, flagHelp{parts[1], parts[2], parts[3]})
		}
	}
	return flags, nil
}
