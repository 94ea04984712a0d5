package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gatehouse/internal/setup/tomlfile"
)

// File is one file of the configuration, as it was read.
type File struct {
	Name string // in the problems; usually its path
	Text []byte
	// Document is the decoded text; nil: Text is decoded when it is needed.
	Document *tomlfile.Document
	// Only names what is read of it at its top, keys and sections (see [Names]): the
	// rest belongs to another parser. Nil reads all of it.
	Only []string
}

// Files reads what [Load] lays over one another: the file, then every file of the
// folder conf.d beside it whose name ends in .toml, in the order of their names. The
// file is path, else the one that GATEHOUSE_CONFIG names, else
// /etc/gatehouse/gatehouse.toml; one that is named must exist.
func Files(path string, environ []string) ([]File, error) {
	return filesOr(systemFile, named(path, environ))
}

// MainFile is the path of the file that [Files] reads first, whether it exists or not.
func MainFile(path string, environ []string) string { return cmp.Or(named(path, environ), systemFile) }

// named returns the file that a flag or a variable names, or "".
func named(path string, environ []string) string { return cmp.Or(path, Lookup(environ, fileVariable)) }

func partsOf(file string) string { return filepath.Join(filepath.Dir(file), partsFolder) }

// filesOr is Files with the file that is read where none is named.
func filesOr(system, named string) ([]File, error) {
	var all []File
	name := cmp.Or(named, system)
	text, err := tomlfile.Read(name, MaxFile)
	switch {
	case err == nil:
		all = append(all, File{Name: name, Text: text})
	case named != "" || !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	parts, err := readParts(partsOf(name))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return append(all, parts...), nil
}

// readParts reads the files of the folder; none where there is no such folder. What
// does not end in .toml, or is hidden, is no part: editors and packages leave such.
func readParts(folder string) (parts []File, err error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // filesOr does, and the error names the folder
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".toml") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(folder, e.Name())
		text, err := tomlfile.Read(path, MaxFile)
		if err != nil {
			return nil, err //nolint:wrapcheck // as above
		}
		parts = append(parts, File{Name: path, Text: text})
	}
	return parts, nil
}
