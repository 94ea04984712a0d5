package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const stationHelp = `Stations are the hardware.

  indented as it is

Usage:
  gatehouse station COMMAND
  gatehouse station [command]

Examples:
  gatehouse station list --json

Available Commands:
  add         Enrol a station
  first-boot  Apply a site file

Flags:
  -h, --help        help for station
      --id N        enrol it as station N
  -f, --force       do it whatever happens (default true)

Global Flags:
      --json   write one JSON document

Use "gatehouse station [command] --help" for more information about a command.
`

func TestParseHelp(t *testing.T) {
	c, err := parseHelp("gatehouse station", stationHelp)
	if err != nil {
		t.Fatal(err)
	}
	if c.usage != "gatehouse station COMMAND" {
		t.Errorf("usage is %q", c.usage)
	}
	if got := strings.Join(c.children, ","); got != "add,first-boot" {
		t.Errorf("children are %s", got)
	}
	want := []flagHelp{{"--id", "N", "enrol it as station N"}, {"-f, --force", "", "do it whatever happens (default true)"}}
	if len(c.flags) != len(want) || c.flags[0] != want[0] || c.flags[1] != want[1] {
		t.Errorf("flags are %q", c.flags)
	}
	if len(c.global) != 1 || c.global[0].name != "--json" {
		t.Errorf("global flags are %q", c.global)
	}
	if strings.TrimSpace(c.examples) != "gatehouse station list --json" {
		t.Errorf("examples are %q", c.examples)
	}
}

// What cannot be read must not go missing from the page.
func TestParseHelp_refused(t *testing.T) {
	for name, help := range map[string]string{
		"a new heading":    strings.Replace(stationHelp, "Available Commands:", "More Commands:", 1),
		"no usage":         strings.Replace(stationHelp, "Usage:", "Examples:", 1),
		"an odd flag":      strings.Replace(stationHelp, "--id N        enrol", "--id N enrol", 1),
		"another's usage":  strings.ReplaceAll(stationHelp, "gatehouse station", "gatehouse account"),
		"flags above text": strings.Replace(stationHelp, "  -h, --help", "Or else\n  -h, --help", 1),
	} {
		if c, err := parseHelp("gatehouse station", help); err == nil {
			t.Errorf("%s is read as %q", name, c)
		}
	}
}

func TestPage_command(t *testing.T) {
	c, err := parseHelp("gatehouse station", stationHelp)
	if err != nil {
		t.Fatal(err)
	}
	var p page
	p.command(c)
	const want = `.SS gatehouse station COMMAND
Stations are the hardware.
.PP
.RS 4
.EX
indented as it is
.EE
.RE
.TP
\fB\-\-id\fR \fIN\fR
enrol it as station N
.TP
\fB\-f, \-\-force\fR
do it whatever happens (default true)
.PP
For example:
.PP
.RS 4
.EX
gatehouse station list \-\-json
.EE
.RE
`
	if p.String() != want {
		t.Errorf("the page is\n%s", p.String())
	}
}

func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"a-b":              `a\-b`,
		".TH":              `\&.TH`,
		"'quoted'":         `\(aqquoted\(aq`,
		`C:\x`:             `C:\ex`,
		`"all" ~ ^ ` + "`": `\(dqall\(dq \(ti \(ha \(ga`,
	} {
		if got := escaped(text); got != want {
			t.Errorf("%s becomes %s, not %s", text, got, want)
		}
	}
}

func TestPage_text(t *testing.T) {
	var p page
	p.text(strings.Repeat("word ", 40) + "\n.dots begin no macro")
	for line := range strings.Lines(p.String()) {
		if len(line) > 81 || strings.HasPrefix(line, ".") {
			t.Errorf("a line is %q", line)
		}
	}
}

func TestJob_fill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.in")
	if err := os.WriteFile(file, []byte("@VERSION@ of @DATE@\n@BODY@\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := job{version: "1.0~rc-1", time: time.Unix(0, 0).UTC()}
	got, err := j.fill(file, map[string]string{"BODY": "text\n"})
	if err != nil || got != "1.0\\(tirc\\-1 of 1970-01-01\ntext\n" {
		t.Errorf("filled: %q, %v", got, err)
	}
	if _, err := j.fill(file, map[string]string{"OTHER": "text\n"}); err == nil {
		t.Error("what has no place in the page is lost")
	}
}

const settingsText = `# About the file.
#
# More of it.

# Where it is.
data = "/var/lib/x"

[http]
# Of the section.

# Both bounds.
max = 1
max_each = 2

# An aside.

[log]
# How much.
level = "info"

[bare]
key = ""
`

func TestParseSettings(t *testing.T) {
	all, err := parseSettings(settingsText)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		line := "[" + s.section + "]"
		for _, k := range s.keys {
			line += " " + k.variable + "=" + k.value
		}
		got = append(got, line+" "+strings.ReplaceAll(s.comment, "\n", "|"))
	}
	want := []string{
		"[] About the file.||More of it.|",
		`[] GATEHOUSE_DATA="/var/lib/x" Where it is.|`,
		"[http] ",
		"[] Of the section.|",
		"[] GATEHOUSE_HTTP_MAX=1 GATEHOUSE_HTTP_MAX_EACH=2 Both bounds.|",
		"[] An aside.|",
		"[log] ",
		`[] GATEHOUSE_LOG_LEVEL="info" How much.|`,
		"[bare] ",
		`[] GATEHOUSE_BARE_KEY="" `,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the settings are\n%s", strings.Join(got, "\n"))
	}
	if _, err := parseSettings("# Text.\nkey: value\n"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("what is no TOML that is known here: %v", err)
	}
}

// The page of the configuration has every key of the file that is shipped.
func TestJob_settings(t *testing.T) {
	t.Chdir("../..")
	page, err := job{version: "1.0", time: time.Unix(0, 0)}.settings()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(configFile)
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	for line := range strings.Lines(string(text)) {
		if name, _, found := strings.Cut(line, " = "); found && !strings.HasPrefix(line, "#") {
			keys++
			if !strings.Contains(page, `\fB`+name+`\fR = `) {
				t.Errorf("the page says nothing of %s", name)
			}
		}
	}
	if keys < 20 {
		t.Errorf("only %d keys were looked for", keys)
	}
}
