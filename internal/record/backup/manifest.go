package backup

import (
	"fmt"
	"io/fs"
	"strings"

	"gatehouse/internal/site"
)

// Format is the version of the archive that this package writes, and the newest that
// it reads.
const Format = 1

// The names within an archive. What is under data goes to the data directory, what is
// under config beside the configuration file.
const (
	manifestName = "manifest.json"
	underData    = "data/"
	underConfig  = "config/"
	mainConfig   = underConfig + "gatehouse.toml"
	database     = "gatehouse.db"
)

// maxEntries bounds the files of an archive; there are about a dozen.
const maxEntries = 1000

// Manifest is the first entry of an archive.
type Manifest struct {
	Format  int            `json:"format"`
	Version string         `json:"version"` // of the gatehouse that made it
	Created site.Timestamp `json:"created"`
	Holds   site.Inventory `json:"holds"`
	Files   []Entry        `json:"files"` // in the order in which they follow
}

// Entry is one file of an archive.
type Entry struct {
	Name   string `json:"name"` // "data/gatehouse.db", "config/conf.d/50-site.toml"
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hexadecimal
	Mode   uint32 `json:"mode"`   // the permission bits
}

// check refuses a manifest that no gatehouse has written.
func (m Manifest) check() error {
	if m.Format != Format || len(m.Files) > maxEntries {
		return fmt.Errorf("the manifest has the format %d and names %d files", m.Format, len(m.Files))
	}
	seen := make(map[string]bool)
	for _, e := range m.Files {
		if e.Size < 0 || seen[e.Name] || !e.local() {
			return fmt.Errorf("the manifest names %q, of %d bytes", e.Name, e.Size)
		}
		seen[e.Name] = true
	}
	if !seen[underData+database] {
		return fmt.Errorf("the manifest names no database")
	}
	return nil
}

// local reports whether the name stays where it belongs.
func (e Entry) local() bool {
	below, isData := strings.CutPrefix(e.Name, underData)
	below, isConfig := strings.CutPrefix(below, underConfig)
	return fs.ValidPath(below) && below != "." && !strings.ContainsAny(below, "\\\x00") &&
		isData != isConfig && (isConfig || dataName(below))
}

// dataName reports whether a file of that name belongs into the data directory.
func dataName(name string) bool {
	switch name {
	case database, database + "-wal", tokenKey:
		return true
	default:
		return strings.HasPrefix(name, certificates+"/")
	}
}

// The names of the other parts of the data directory.
const (
	tokenKey     = "token.key"
	certificates = "tls"
)
