//go:build board

package boardtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The versions that the tests install. The next one has one more migration than
// the product; both are otherwise this tree.
const (
	version     = "1.0.0"
	nextVersion = "1.1.0"
	nextTag     = "gatehouse_nextschema"
)

var packages once

// architecture is this machine's in Debian's words.
func architecture() string {
	if runtime.GOARCH == "arm" {
		return "armhf"
	}
	return runtime.GOARCH
}

// deb makes the package of a version and returns the path of its file.
func deb(t *testing.T, version string) string {
	t.Helper()
	tags := ""
	if version == nextVersion {
		tags = nextTag
	}
	return packages.get(t, version, func() (string, error) {
		dir := filepath.Join(builds(), version)
		err := build([]string{
			"GATEHOUSE_PACKAGE_VERSION=" + version, "GATEHOUSE_BUILD_TAGS=" + tags, "GATEHOUSE_PACKAGES_DIR=" + dir,
		}, "scripts/packages", architecture())
		if err != nil {
			return "", err
		}
		found, err := filepath.Glob(filepath.Join(dir, "*_"+architecture()+".deb"))
		if err != nil || len(found) != 1 {
			return "", fmt.Errorf("scripts/packages left %d packages in %s: %v", len(found), dir, err)
		}
		return found[0], nil
	})
}

// putDeb puts a package on the board and returns its path there.
func (b *board) putDeb(file string) string {
	b.Helper()
	path := "/root/" + filepath.Base(file)
	data, err := os.ReadFile(file)
	b.must(err)
	b.must(os.WriteFile(b.file(path), data, 0o644))
	return path
}

// install installs a version of the package and returns what dpkg prints.
func (b *board) install(version string) string {
	b.Helper()
	return b.sh("dpkg --install " + b.putDeb(deb(b.T, version)))
}

// installed returns a board on which the package is installed and ready.
func installed(t *testing.T, suite string) *board {
	t.Helper()
	b := startBoard(t, suite)
	b.install(version)
	b.awaitReady()
	return b
}
