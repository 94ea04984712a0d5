package firstboot

import (
	"io/fs"
	"regexp"
	"strconv"

	"gatehouse/configs"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// publicProblems finds the passwords, secrets and tokens of the examples, which everyone
// can read, in a value of the document: the last names of its path. "gatehouse apply"
// accepts them, for demonstrations; a board at a door does not.
func publicProblems(public map[string]bool, d *tomlfile.Document, value any, path ...string) (problems []tomlfile.Problem) {
	switch value := value.(type) {
	case string:
		name := path[len(path)-1]
		if public[value] && site.IsSecretName(name) {
			problems = append(problems, tomlfile.Problem{File: d.Name, Line: d.Line(path...), Text: "this " + name + " is that of the example: choose your own, or leave the line out"})
		}
	case map[string]any:
		for key, inner := range value {
			problems = append(problems, publicProblems(public, d, inner, append(path[:len(path):len(path)], key)...)...)
		}
	case []any:
		for i, item := range value {
			problems = append(problems, publicProblems(public, d, item, append(path[:len(path):len(path)], strconv.Itoa(i))...)...)
		}
	}
	return problems
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
