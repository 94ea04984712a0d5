package firstboot

import (
	"io/fs"
	"regexp"
	"slices"

	"gatehouse/configs"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// publicProblems finds the passwords, secrets and tokens of the examples, which everyone
// can read. "gatehouse apply" accepts them, for demonstrations; a
// board at a door does not.
func (b *boot) publicProblems() (problems []tomlfile.Problem) {
	public := publicSecrets()
	look := func(key string, lines sitefile.Lines, value site.Secret) {
		if public[value.Reveal()] {
			problems = append(problems, tomlfile.Problem{File: b.path, Line: lines.Of(key), Text: isPublic(key)})
		}
	}
	for _, a := range b.plan.site.Accounts {
		look("password", a.Lines, a.Password)
	}
	for _, s := range b.plan.site.Stations {
		look("secret", s.Lines, s.Secret)
		look("token", s.Lines, s.Token)
	}
	return problems
}

func isPublic(what string) string {
	return "this " + what + " is that of the example: choose your own, or leave the line out"
}

// publicSettings does the same for the settings of the site file.
func (b *boot) publicSettings() []tomlfile.Problem {
	const key = "cloud.password"
	if !slices.Contains(b.plan.keys, key) || !publicSecrets()[b.plan.config.Cloud.Password.Reveal()] {
		return nil
	}
	p := b.placed(key, "")
	p.Text = isPublic("password")
	return []tomlfile.Problem{p}
}

// exampleSecret is a line of an example with a secret, in use or not.
var exampleSecret = regexp.MustCompile(`(?m)^#?(?:password|secret|token) = "([^"\n]+)"`)

// publicSecrets returns those of every example.
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
