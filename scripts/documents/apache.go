package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Debian has the Apache licence on every machine, and wants copyright files to
// point at it; elsewhere its text must come along.
const apachePointer = "(The text of the Apache License, Version 2.0, is that of\n/usr/share/common-licenses/Apache-2.0 on a Debian system, and of the file\napache-2.0.txt in the archive for others.)"

var apacheTerms = regexp.MustCompile(`(?is)[ ]*Apache License\s+Version 2\.0, January 2004.*?accepting any such warranty or additional liability\.` +
	`(?:\s*END OF TERMS AND CONDITIONS)?(?:\s*APPENDIX: How to apply.*?limitations under the License\.)?`)

// withoutApache puts the pointer in the place of the licence's text.
func withoutApache(text string) string {
	return strings.Trim(apacheTerms.ReplaceAllLiteralString(text, apachePointer), "\n")
}

// apache returns the text that the copyright file points to, as one of the modules
// has it.
func (j job) apache() (string, error) {
	found := make(map[string]*module)
	if err := addModules(found, "amd64"); err != nil {
		return "", err
	}
	for _, name := range []string{"github.com/spf13/cobra", "github.com/coreos/go-systemd/v22"} {
		if found[name] == nil {
			continue
		}
		for _, file := range []string{"LICENSE", "LICENSE.txt"} {
			text, err := os.ReadFile(filepath.Join(found[name].Dir, file))
			if err == nil {
				return tidy(string(text)) + "\n", nil
			}
		}
	}
	return "", errors.New("no module has the Apache licence any more: take it out of scripts/documents and scripts/packages")
}
