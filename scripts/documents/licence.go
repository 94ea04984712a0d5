package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// part is something that the binary is made of and that is not ours: a module, or
// Go itself.
type part struct {
	name    string // the import path
	version string
	licence string // in the words of SPDX
	holders []string
	texts   []string // the licence files, each with its name above it if it has several
}

// copyrightHead is the beginning of the copyright file.
const copyrightHead = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Gatehouse
Comment: The program contains, linked into it, the Go modules that are named
 below by their import paths, and the library of Go itself. These are their
 licences. The source code of each is to be had under its import path, for
 example with "go mod download PATH@VERSION"; that of Go at https://go.dev.
 What is named npm/NAME is a library of the console, to be had with
 "npm pack NAME@VERSION".

Files: *
Copyright: the Gatehouse authors
License: Gatehouse
 Copyright the Gatehouse authors. All rights reserved.
`

// copyright makes the copyright file, in the format that its first line names.
func (j job) copyright() (string, error) {
	parts, err := binaryParts()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(copyrightHead)
	for _, p := range parts {
		fmt.Fprintf(&b, "\nFiles: %s/*\n", p.name)
		fmt.Fprintf(&b, "Copyright: %s\n", strings.Join(p.holders, "\n  "))
		fmt.Fprintf(&b, "License: %s\n", p.licence)
		for line := range strings.Lines(strings.Join(p.texts, "\n\n")) {
			b.WriteString(" " + cmp.Or(strings.TrimRight(line, "\n"), ".") + "\n")
		}
		fmt.Fprintf(&b, "Comment: %s %s\n", p.name, p.version)
	}
	return b.String(), nil
}

// binaryParts finds what the binary is made of, for every board, in the order of
// names.
func binaryParts() ([]part, error) {
	found := make(map[string]*module)
	for _, arch := range []string{"amd64", "arm64", "arm"} {
		if err := addModules(found, arch); err != nil {
			return nil, err
		}
	}
	goRoot, err := output("", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	goVersion, err := output("", "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	dir := strings.TrimSpace(string(goRoot))
	found[""] = &module{Path: "std", Version: strings.TrimSpace(string(goVersion)), Dir: dir, folders: []string{dir}}
	if err := addScripts(found, "internal/web/console/vendor"); err != nil {
		return nil, err
	}
	var parts []part
	for _, m := range found {
		p, err := m.part()
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	return parts, nil
}

// module is a module of which the binary contains packages.
type module struct {
	Path, Version, Dir string
	Main               bool
	folders            []string // of those packages, and those around them
}

// addModules adds what the binary for an architecture is made of.
func addModules(found map[string]*module, arch string) error {
	out, err := output(arch, "list", "-deps", "-json=Dir,Module", "./cmd/gatehouse")
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			Dir    string
			Module *module
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		m := found[p.Module.Path]
		if m == nil {
			m = p.Module
			found[m.Path] = m
		}
		for dir := p.Dir; strings.HasPrefix(dir, m.Dir) && !slices.Contains(m.folders, dir); dir = filepath.Dir(dir) {
			m.folders = append(m.folders, dir)
		}
	}
}

// addScripts adds the libraries of the console, which scripts/vendor-console took from
// the registry of npm.
func addScripts(found map[string]*module, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "vendor.json"))
	if err != nil {
		return err
	}
	var libraries map[string]struct{ Version string }
	if err := json.Unmarshal(text, &libraries); err != nil {
		return err
	}
	for name, library := range libraries {
		folder := filepath.Join(dir, "licences", name)
		found["npm/"+name] = &module{Path: "npm/" + name, Version: library.Version, Dir: folder, folders: []string{folder}}
	}
	return nil
}

// output runs the go command for Linux on an architecture.
func output(arch string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if arch != "" {
		cmd.Env = append(cmd.Env, "GOARCH="+arch)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// licenceFile is the name of a file that must go with the binary.
var licenceFile = regexp.MustCompile(`(?i)^(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|PATENTS)([-.].*)?$`)

// needless are files that are about what is not in the binary, or is here for
// itself.
var needless = []string{
	"modernc.org/memory/LICENSE-LOGO",         // where its logo is from
	"modernc.org/sqlite/LICENSE-3RD-PARTY.md", // every module in its graph; those linked in have their own, SQLite too
	"modernc.org/sqlite/LICENSE-SQLITE_VEC",   // of an extension that is not linked in
}

// licences reports whether it is a licence of the module, as far as its name says.
func (m *module) licences(file fs.DirEntry) bool {
	return file.Type().IsRegular() && licenceFile.MatchString(file.Name()) && !strings.HasSuffix(file.Name(), ".go") &&
		!slices.Contains(needless, m.Path+"/"+file.Name())
}

// licenceNames finds the licence files of a module.
func (m *module) licenceNames() ([]string, error) {
	var names []string
	for _, dir := range m.folders {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("the licences of %s: %w", m.Path, err)
		}
		for _, e := range entries {
			if m.licences(e) {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// part reads the licences of a module.
func (m *module) part() (part, error) {
	p := part{name: m.Path, version: m.Version}
	names, err := m.licenceNames()
	if err != nil {
		return part{}, err
	}
	var licences []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return part{}, err
		}
		if !utf8.Valid(text) {
			return part{}, fmt.Errorf("%s is not UTF-8", name)
		}
		inside, _ := filepath.Rel(m.Dir, name)
		heading := ""
		if len(names) > 1 {
			heading = inside + ":\n\n"
		}
		p.texts = append(p.texts, heading+withoutApache(tidy(string(text))))
		licences = append(licences, kinds(string(text))...)
		p.holders = append(p.holders, holders(string(text))...)
	}
	if len(licences) == 0 {
		return part{}, fmt.Errorf("%s %s has no licence that is known here, in %s: see what it allows, and teach scripts/documents to know it",
			m.Path, m.Version, m.Dir)
	}
	p.licence = strings.Join(unique(licences), " and ")
	p.holders = unique(p.holders)
	if len(p.holders) == 0 {
		p.holders = []string{"the authors of " + m.Path}
	}
	return p, nil
}

// kinds names the licences that a file holds the text of.
func kinds(text string) []string {
	flat := strings.Join(strings.Fields(text), " ")
	var found []string
	for _, k := range []struct{ name, words, not string }{
		{"Apache-2.0", "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION", ""},
		{"BSD-2-Clause", "Redistributions in binary form must reproduce the above", "to endorse or promote products"},
		{"BSD-3-Clause", "to endorse or promote products", ""},
		{"EPL-2.0", "Eclipse Public License - v 2.0", ""},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose", ""},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", ""},
		{"MPL-2.0", "Mozilla Public License Version 2.0", ""},
		{"Unlicense", "This is free and unencumbered software released into the public domain", ""},
		{"Zlib", "Altered source versions must be plainly marked as such", ""},
		{"public-domain", "has been dedicated to the public domain by the authors", ""},
	} {
		if strings.Contains(flat, k.words) && (k.not == "" || !strings.Contains(flat, k.not)) {
			found = append(found, k.name)
		}
	}
	return found
}

var holderLine = regexp.MustCompile(`(?m)^\W*(?:(?:Copyright|\(c\)|©) *)+(\d{4}.*)$`)

// holders finds who says to hold a copyright, at the beginning of a line, and since
// when.
func holders(text string) []string {
	var found []string
	for _, match := range holderLine.FindAllStringSubmatch(text, -1) {
		holder, _, _ := strings.Cut(match[1], ". ") // "All rights reserved" and the like
		holder = strings.TrimSuffix(strings.TrimRight(holder, " .,\r"), " or")
		found = append(found, strings.Join(strings.Fields(holder), " "))
	}
	return found
}

func unique(words []string) []string {
	var once []string
	for _, w := range words {
		if !slices.Contains(once, w) {
			once = append(once, w)
		}
	}
	return once
}

// tidy returns the lines of a file without the blanks around them.
func tidy(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r", ""), "\t", "        ")
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, "\n \f"))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
