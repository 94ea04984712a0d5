package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// release is what changed in a version.
type release struct {
	version string // "" where it is not released yet
	time    time.Time
	groups  []group
}

// group is what was "Added", "Changed" and so on.
type group struct {
	name    string
	changes []string
}

// changelog makes the changelog of the Debian package, in the format of
// deb-changelog(5). The version that is being built is what is not released yet, or
// the newest release.
func (j job) changelog() (string, error) {
	text, err := os.ReadFile(changelogFile)
	if err != nil {
		return "", err
	}
	releases, err := parseChangelog(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w", changelogFile, err)
	}
	return j.debianChangelog(releases), nil
}

func (j job) debianChangelog(releases []release) string {
	if len(releases) == 0 || releases[0].version != "" && releases[0].version != j.version {
		nothing := group{changes: []string{"Nothing that those who install or run it would notice."}}
		releases = append([]release{{groups: []group{nothing}}}, releases...)
	}
	var b strings.Builder
	for i, r := range releases {
		if r.version == "" {
			r.version, r.time = j.version, j.time
		}
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "gatehouse (%s) stable; urgency=medium\n", r.version)
		for _, g := range r.groups {
			b.WriteString("\n")
			if g.name != "" {
				fmt.Fprintf(&b, "  [ %s ]\n", g.name)
			}
			for _, change := range g.changes {
				b.WriteString(wrapped(change))
			}
		}
		fmt.Fprintf(&b, "\n -- %s  %s\n", j.maintainer, r.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	}
	return b.String()
}

// wrapped sets a change as an item of a list, in lines of at most 80 characters.
func wrapped(change string) string {
	const width = 80
	var b strings.Builder
	line, start := "  *", "   "
	for _, word := range strings.Fields(change) {
		if len([]rune(line))+1+len([]rune(word)) > width {
			b.WriteString(line + "\n")
			line = start
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

var releaseLine = regexp.MustCompile(`^## (?:Unreleased|(\d+\.\d+\.\d+\S*) \((\d{4}-\d\d-\d\d)\))$`)

// parseChangelog reads our changelog: "## Unreleased" or "## 1.2.0 (2026-12-01)",
// below it "### Added" and the like, below that a list.
func parseChangelog(text string) ([]release, error) {
	var releases []release
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n ")
		wrong := fmt.Errorf("line %d: %q is not in a place that is known here", number, line)
		r, g := last(releases)
		switch {
		case strings.HasPrefix(line, "## "):
			next, err := parseRelease(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			releases = append(releases, next)
		case r == nil || line == "": // the head of the file
		case strings.HasPrefix(line, "### "):
			r.groups = append(r.groups, group{name: strings.TrimPrefix(line, "### ")})
		case g == nil:
			return nil, wrong
		case strings.HasPrefix(line, "- "):
			g.changes = append(g.changes, plain(strings.TrimPrefix(line, "- ")))
		case strings.HasPrefix(line, "  ") && len(g.changes) > 0:
			g.changes[len(g.changes)-1] += " " + plain(strings.TrimSpace(line))
		default:
			return nil, wrong
		}
	}
	return releases, nil
}

// last returns the release and the group that are being read.
func last(releases []release) (*release, *group) {
	if len(releases) == 0 {
		return nil, nil
	}
	r := &releases[len(releases)-1]
	if len(r.groups) == 0 {
		return r, nil
	}
	return r, &r.groups[len(r.groups)-1]
}

func parseRelease(line string) (release, error) {
	parts := releaseLine.FindStringSubmatch(line)
	if parts == nil {
		return release{}, fmt.Errorf("%q is neither \"## Unreleased\" nor \"## 1.2.0 (2026-12-01)\"", line)
	}
	if parts[1] == "" {
		return release{}, nil
	}
	day, err := time.Parse(time.DateOnly, parts[2])
	// As scripts/version does with the tag.
	return release{version: strings.Replace(parts[1], "-", "~", 1), time: day}, err
}

// plain takes the marks of Markdown away.
func plain(text string) string { return strings.NewReplacer("`", "", "**", "").Replace(text) }
