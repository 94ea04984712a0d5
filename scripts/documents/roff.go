package main

import (
	"fmt"
	"strings"
)

// page is a manual page in the making, in the macros of man(7).
type page struct{ strings.Builder }

// request writes a line that begins with a macro.
func (p *page) request(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes words that may be broken into lines anew, as roff does too.
func (p *page) text(words string) {
	const width = 80
	line := ""
	for _, word := range strings.Fields(words) {
		word = escaped(word)
		if line != "" && len(line)+1+len(word) > width {
			p.WriteString(line + "\n")
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		p.WriteString(line + "\n")
	}
}

// prose writes paragraphs as people write them in a terminal: an empty line parts
// them, and indented lines stay as they are.
func (p *page) prose(words string) {
	first := true
	for _, paragraph := range strings.Split(strings.Trim(words, "\n"), "\n\n") {
		if !first {
			p.request(".PP")
		}
		first = false
		if strings.HasPrefix(paragraph, " ") {
			p.verbatim(paragraph)
			continue
		}
		p.text(paragraph)
	}
}

// verbatim writes lines as they are, indented.
func (p *page) verbatim(lines string) {
	p.request(".RS 4")
	p.request(".EX")
	for line := range strings.Lines(strings.Trim(lines, "\n")) {
		p.WriteString(escaped(strings.TrimPrefix(strings.TrimRight(line, "\n"), "  ")) + "\n")
	}
	p.request(".EE")
	p.request(".RE")
}

// escaped returns text in which nothing has a meaning for roff. A hyphen is one that
// can be copied into a shell; a quote too. A dot begins no macro.
func escaped(text string) string {
	text = strings.NewReplacer(
		`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`, "…", `\&...`,
	).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
