package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gatehouse/internal/test/brokertest"
)

// TestReadme runs the examples of README.md that use curl and mosquitto-clients, as
// they stand there, against the example site.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	site, err := os.ReadFile("../../configs/site.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	broker := brokertest.Mosquitto(t)
	commands := scriptCommands()
	commands["asdocumented"] = cmdAsDocumented
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/readme",
		Cmds:                commands,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("BROKER", broker.Address())
			files := map[string]string{"home/.curlrc": "", "site.example.toml": string(site)}
			for name, title := range map[string]string{"app": "Unlock a door from an app", "station": "Be a station", "cloud": "Open a door from the cloud"} {
				for i, e := range examples(string(readme), title) {
					files[fmt.Sprintf("%s-%d.sh", name, i+1)] = e.script()
					files[fmt.Sprintf("%s-%d.answer", name, i+1)] = e.answer
				}
			}
			if err := prepare(t, env); err != nil {
				return err
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

// example is one command of the README, with the variables that are set before it
// and the answer that its comment shows.
type example struct{ variables, command, answer string }

// examples gives the commands in the code blocks of a section.
func examples(readme, title string) (found []example) {
	_, section, _ := strings.Cut(readme, "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	variables, continued := "", false
	for i, block := range strings.Split(section, "\n```\n") {
		if i%2 == 0 {
			continue // prose
		}
		for line := range strings.Lines(block + "\n") {
			comment, isComment := strings.CutPrefix(line, "#")
			switch {
			case strings.TrimSpace(line) == "":
			case isComment:
				found[len(found)-1].answer += comment
			case continued:
				found[len(found)-1].command += line
			case regexp.MustCompile(`^[A-Z]+=`).MatchString(line):
				variables += line
				continue
			default:
				found = append(found, example{variables: variables, command: line})
			}
			continued = strings.HasSuffix(line, "\\\n")
		}
	}
	return found
}

// script is the example as a reader types it, with what the gateway has chosen in
// the place of the README's addresses and of what it shortens.
func (e example) script() string {
	return strings.NewReplacer(
		"http://127.0.0.1:8080", "http://$HTTP",
		"-h 127.0.0.1 -p 1883", "-h ${MQTT%:*} -p ${MQTT##*:}",
		`6f1c…`, `'$REFRESH_TOKEN'`,
		`0190c8a0-…`, `'$COMMAND'`,
		"18830", "${BROKER##*:}",
		"front-desk …", "$KEY",
		"0f9b…", "$GATEWAY",
	).Replace(e.variables + "exec " + e.command)
}

// cmdAsDocumented compares stdout, or a file, with the answer that the README shows:
// "…" stands for anything, a time for any time, and words behind two spaces are for
// the reader.
func cmdAsDocumented(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "asdocumented FILE EXAMPLE")
	answer := ts.ReadFile(args[1] + ".answer")
	answer = regexp.MustCompile(`(?m)^ +|  +\S.*$|\n`).ReplaceAllString(answer, "")
	pattern := regexp.QuoteMeta(answer)
	pattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+\\\.\d{3}Z`).ReplaceAllString(pattern, `\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z`)
	pattern = regexp.MustCompile(`\w*-?…`).ReplaceAllString(pattern, `.+`)
	pattern = regexp.MustCompile(`"ttl":5`).ReplaceAllString(pattern, `"ttl":[1-5]`)
	if got := strings.TrimSpace(ts.ReadFile(args[0])); answer == "" || !regexp.MustCompile(`^`+pattern+`$`).MatchString(got) {
		ts.Fatalf("the README says\n%s\nand the answer is\n%s", answer, got)
	}
}
