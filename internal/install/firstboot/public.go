package firstboot

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"

	"gatehouse/configs"
	"gatehouse/internal/config"
	"gatehouse/internal/site"
)

// publicProblems finds the passwords, secrets and tokens that stand in the examples,
// where everyone can read them. "gatehouse apply" takes them, for demonstrations; a
// board at a door does not.
func (b *boot) publicProblems() (problems []Problem) {
	public := publicSecrets()
	look := func(key, what, path string, value site.Secret) {
		if public[value.Reveal()] {
			problems = append(problems, Problem{File: b.path, Line: b.plan.mixed.Line(path + "." + key), Text: isPublic(what)})
		}
	}
	for i, a := range b.site().Accounts {
		look("password", "password", fmt.Sprintf("account[%d]", i), a.Password)
	}
	for i, s := range b.site().Stations {
		at := fmt.Sprintf("station[%d]", i)
		look("secret", "secret", at, s.Secret)
		look("token", "token", at, s.Token)
	}
	return problems
}

func isPublic(what string) string {
	return "this " + what + " stands in the example: choose your own, or leave the line out"
}

// publicSettings does the same for the settings of the site file.
func (b *boot) publicSettings(sources config.Sources) []Problem {
	const key = "cloud.password"
	if !slices.Contains(b.plan.keys, key) || !publicSecrets()[b.plan.config.Cloud.Password.Reveal()] {
		return nil
	}
	p := placed(sources, key, "")
	p.Text = isPublic("password")
	return []Problem{p}
}

// exampleSecret is a line of an example that gives a secret, in use or not.
var exampleSecret = regexp.MustCompile(`(?m)^#?(?:password|secret|token) = "([^"\n]+)"`)

// publicSecrets gives those of every example.
func publicSecrets() map[string]bool {
	all := map[string]bool{}
	names, _ := fs.Glob(configs.Files, "*.example.toml") // fails for wrong patterns only
	for _, name := range names {
		text, _ := configs.Files.ReadFile(name) // it is part of this program
		for _, match := range exampleSecret.FindAllSubmatch(text, -1) {
			all[string(match[1])] = true
		}
	}
	return all
}
