// Command documents makes the documents that the packages carry, out of what is
// there anyway: the manual page of the command line from the --help of every
// command, that of the configuration from its annotated file, the changelog of
// Debian from ours, and the copyright file from the licences of everything that the
// binary is made of. The same tree makes the same bytes.
//
//	go run ./scripts/documents -binary FILE -version VERSION -maintainer NAME -time UNIX -into DIRECTORY
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The files in the tree, from whose root this runs.
const (
	changelogFile = "packaging/CHANGELOG.md"
	configFile    = "configs/gatehouse.toml"
	manualFile    = "packaging/man/gatehouse.1.in"
	settingsFile  = "packaging/man/gatehouse.toml.5.in"
)

// job is what to make, and where.
type job struct {
	binary     string // runs on this machine
	version    string
	maintainer string // NAME <ADDRESS>
	time       time.Time
	into       string
}

func main() {
	var j job
	var seconds int64
	flag.StringVar(&j.binary, "binary", "", "the gateway's program, for this machine")
	flag.StringVar(&j.version, "version", "", "the version of the package")
	flag.StringVar(&j.maintainer, "maintainer", "", "who signs the changelog: NAME <ADDRESS>")
	flag.Int64Var(&seconds, "time", 0, "when the tree was last changed, in seconds since 1970")
	flag.StringVar(&j.into, "into", "", "the directory to write to")
	flag.Parse()
	j.time = time.Unix(seconds, 0).UTC()
	if err := j.run(); err != nil {
		fmt.Fprintln(os.Stderr, "documents:", err)
		os.Exit(1)
	}
}

// run writes every document.
func (j job) run() error {
	documents := []struct {
		name string
		make func() (string, error)
	}{
		{"gatehouse.1", j.manual},
		{"gatehouse.toml.5", j.settings},
		{"changelog", j.changelog},
		{"copyright", j.copyright},
		{"apache-2.0.txt", j.apache},
	}
	for _, d := range documents {
		text, err := d.make()
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if err := os.WriteFile(filepath.Join(j.into, d.name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
