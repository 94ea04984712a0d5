package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const mitLicence = "The MIT License\r\n\r\nCopyright (c) 2019, 2020 Some One <one@example.test>. All rights reserved.\r\n\r\n" +
	"Permission is hereby granted, free of charge, to any person\r\nobtaining a copy of this.\r\n"

const apacheLicence = `                                 Apache License
                           Version 2.0, January 2004

   TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION

   1. Much.

   9. of your accepting any such warranty or additional liability.

   END OF TERMS AND CONDITIONS

   APPENDIX: How to apply the Apache License to your work.

   limitations under the License.
`

// newModule makes a module of these files, whose package is in the folder inner.
func newModule(t *testing.T, files map[string]string) *module {
	t.Helper()
	dir := t.TempDir()
	m := &module{Path: "example.test/thing", Version: "v1.2.3", Dir: dir, folders: []string{filepath.Join(dir, "inner"), dir}}
	if err := os.Mkdir(filepath.Join(dir, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestModule_part(t *testing.T) {
	p, err := newModule(t, map[string]string{
		"LICENSE.md": mitLicence, "inner/COPYING": apacheLicence, "NOTICE": "Thanks.\n", "license.go": "package thing", "README": "-",
	}).part()
	if err != nil {
		t.Fatal(err)
	}
	if p.licence != "MIT and Apache-2.0" {
		t.Errorf("the licence is %s", p.licence)
	}
	if !slices.Equal(p.holders, []string{"2019, 2020 Some One <one@example.test>"}) {
		t.Errorf("the holders are %q", p.holders)
	}
	text := strings.Join(p.texts, "\n\n")
	for _, want := range []string{"LICENSE.md:\n\nThe MIT", "obtaining a copy", "NOTICE:\n\nThanks.", "inner/COPYING:\n\n(The text of the Apache"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"\r", "TERMS AND CONDITIONS", "APPENDIX", "package thing"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in\n%s", unwanted, text)
		}
	}
}

// A module of which nobody knows what it allows makes no package.
func TestModule_part_refused(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no licence":                   {"README": mitLicence},
		"a licence that nobody knows":  {"LICENSE": "You may look at it.\n"},
		"a licence that is not UTF-8":  {"LICENSE": mitLicence + "\xff"},
		"a notice, but of no licence":  {"NOTICE": "Thanks.\n"},
		"a licence outside its folder": {"inner/README": mitLicence},
	} {
		if p, err := newModule(t, files).part(); err == nil {
			t.Errorf("%s: taken as %q", name, p)
		}
	}
}

// The licences that the binary really carries.
func TestJob_copyright(t *testing.T) {
	t.Chdir("../..")
	text, err := job{}.copyright()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Files: std/*\nCopyright: 2009 The Go Authors\nLicense: BSD-3-Clause\n",
		"Files: modernc.org/sqlite/*\n",
		" SQLite Is Public Domain\n",
		"2005-2020 Rich Felker", // musl, within modernc.org/libc
		"Files: github.com/mochi-mqtt/server/v2/*\nCopyright: 2023 Mochi-MQTT Organisation\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the copyright file", want)
		}
	}
	// Debian wants a pointer to its own copy of this one.
	if strings.Contains(text, "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION") {
		t.Error("the copyright file holds the whole Apache licence")
	}
	for line := range strings.Lines(text) {
		if strings.ContainsAny(line, "\t\r") || strings.HasSuffix(line, " \n") {
			t.Errorf("a line is %q", line)
		}
	}
}

func TestAddScripts(t *testing.T) {
	found := make(map[string]*module)
	if err := addScripts(found, "../../internal/web/console/vendor"); err != nil {
		t.Fatal(err)
	}
	for name, licence := range map[string]string{"npm/preact": "MIT", "npm/htm": "Apache-2.0"} {
		if found[name] == nil {
			t.Fatalf("%s is missing", name)
		}
		if p, err := found[name].part(); err != nil || p.licence != licence || p.version == "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
