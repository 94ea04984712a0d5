package firstboot

import (
	"io/fs"
	"regexp"

	"gatehouse/configs"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// publicProblems finds the passwords, secrets and tokens of the examples, which everyone
// can read, in the node of that name. "gatehouse apply" accepts them, for demonstrations;
// a board at a door does not.
func publicProblems(public map[string]bool, file, name string, n *tomlfile.Node) (problems []tomlfile.Problem) {
	if text, is := n.Value.(string); is && public[text] && site.IsSecretName(name) {
		problems = append(problems, tomlfile.Problem{File: file, Line: n.Line, Text: "this " + name + " is that of the example: choose your own, or leave the line out"})
	}
	for _, key := range n.Names() {
		problems = append(problems, publicProblems(public, file, key, n.Keys[key])...)
	}
	for _, item := range n.Items {
		problems = append(problems, publicProblems(public, file, name, item)...)
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
