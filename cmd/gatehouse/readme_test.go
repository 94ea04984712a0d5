package main

import (
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gatehouse/internal/test/brokertest"
)

// documented are the sections of the README and of the guides whose examples run, by the
// names that testdata/readme has for them.
var documented = map[string]struct{ file, title string }{
	"first":   {"README.md", "First login and first door"},
	"desk":    {"README.md", "Without a board"},
	"app":     {"packaging/apps.md", "Unlock a door from an app"},
	"setup":   {"packaging/apps.md", "The first administrator"},
	"station": {"packaging/stations.md", "Be a station"},
	"cloud":   {"packaging/cloud.md", "Open a door from the cloud"},
	"journal": {"packaging/operating.md", "Who did what"},
	"group":   {"packaging/operating.md", "Groups and holidays"},
}

// TestReadme runs the examples of the README and the guides as they are, against the
// example site.
func TestReadme(t *testing.T) {
	commands := scriptCommands()
	commands["asdocumented"], commands["broker"] = cmdAsDocumented, cmdBroker
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/readme",
		Cmds:                commands,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			if err := prepare(t, env); err != nil {
				return err
			}
			site, err := os.ReadFile("../../configs/site.example.toml")
			if err != nil {
				return err
			}
			files := map[string]string{"home/.curlrc": "", "configs/site.example.toml": string(site)}
			for name, section := range documented {
				text, err := os.ReadFile("../../" + section.file)
				if err != nil {
					return err
				}
				found := examples(string(text), section.title)
				if len(found) == 0 {
					return fmt.Errorf("%s has no examples under %q", section.file, section.title)
				}
				for i, e := range found {
					files[fmt.Sprintf("%s-%d.sh", name, i+1)] = e.script()
					files[fmt.Sprintf("%s-%d.answer", name, i+1)] = e.answer
				}
			}
			return writeFiles(env.WorkDir, files)
		},
	})
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// example is one command, with the variables that are set before it and the answer that
// its comment shows.
type example struct{ variables, command, answer string }

var (
	setsVariable = regexp.MustCompile(`^[A-Z_]+=`)
	trailing     = regexp.MustCompile(`\s+# .*$`) // a comment for the reader
)

// examples returns the commands in the code blocks of a section.
func examples(document, title string) (found []example) {
	_, section, _ := strings.Cut(document, "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	variables := ""
	for i, block := range strings.Split(section, "\n```\n") {
		if i%2 == 0 {
			continue // prose
		}
		for line := range commandLines(block) {
			comment, isComment := strings.CutPrefix(line, "#")
			switch {
			case isComment:
				found[len(found)-1].answer += comment
			case setsVariable.MatchString(line):
				variables += line
			default:
				found = append(found, example{variables: variables, command: trailing.ReplaceAllString(line, "\n")})
			}
		}
	}
	return found
}

// commandLines yields the lines of a block that are not empty, each with the lines that
// continue it behind a backslash.
func commandLines(block string) iter.Seq[string] {
	return func(yield func(string) bool) {
		whole := ""
		for line := range strings.Lines(block + "\n") {
			whole += line
			if strings.HasSuffix(line, "\\\n") {
				continue
			}
			if strings.TrimSpace(whole) != "" && !yield(whole) {
				return
			}
			whole = ""
		}
	}
}

// script is the example as a reader types it, with the addresses of the test in the place
// of the usual ones. Everything runs as this user.
func (e example) script() string {
	return strings.NewReplacer(
		"http://127.0.0.1:8080", "http://$HTTP",
		"-h 127.0.0.1 -p 1883", "-h ${MQTT%:*} -p ${MQTT##*:}",
		`"tcp://127.0.0.1:18830"`, `"tcp://127.0.0.1:'"$BROKER_PORT"'"`, // within single quotes
		"-p 18830", "-p $BROKER_PORT",
		"K7QF-3MRD", "$SETUP_CODE",
		"sudo ", "",
	).Replace(e.variables + "exec " + e.command)
}

// cmdBroker starts a broker and sets $BROKER_PORT to its port.
func cmdBroker(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 0, "broker")
	_, port, err := net.SplitHostPort(brokertest.Mosquitto(testOf(ts)).Address())
	ts.Check(err)
	ts.Setenv("BROKER_PORT", port)
}

// cmdAsDocumented compares stdout, or a file, with the answer that the guide shows:
// "…" stands for anything, a time for any time, and words behind two spaces are for
// the reader.
func cmdAsDocumented(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 2, "asdocumented FILE EXAMPLE")
	answer := ts.ReadFile(args[1] + ".answer")
	answer = regexp.MustCompile(`(?m)^ +|  +\S.*$|\n`).ReplaceAllString(answer, "")
	pattern := regexp.QuoteMeta(answer)
	pattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+\\\.\d{3}Z`).ReplaceAllString(pattern, `\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z`)
	pattern = regexp.MustCompile(`\w*-?…`).ReplaceAllString(pattern, `.+`)
	pattern = regexp.MustCompile(`"ttl":5`).ReplaceAllString(pattern, `"ttl":[1-6]?\d`)
	if got := strings.TrimSpace(ts.ReadFile(args[0])); answer == "" || !regexp.MustCompile(`^`+pattern+`$`).MatchString(got) {
		ts.Fatalf("the guide shows\n%s\nand the answer is\n%s", answer, got)
	}
}
