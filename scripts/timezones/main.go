// Command timezones writes internal/timezone/zones.gz from the time zones that come
// with Go. Run it in the root of the tree after a change of Go's version; a test says
// when it is needed.
package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const target = "internal/timezone/zones.gz"

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "timezones:", err)
		os.Exit(1)
	}
}

func write() error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("finding Go: %w", err)
	}
	packed, err := pack(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(target, packed, 0o644); err != nil { //nolint:gosec // part of the source
		return fmt.Errorf("writing the zones: %w", err)
	}
	fmt.Printf("%s: %d bytes\n", target, len(packed))
	return nil
}

// pack gives all zones of the archive, in its order, in the form that package timezone
// reads.
func pack(path string) ([]byte, error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("opening Go's time zones: %w", err)
	}
	defer func() { _ = archive.Close() }()
	var packed bytes.Buffer
	out, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		if err := add(out, file); err != nil {
			return nil, fmt.Errorf("packing %s: %w", file.Name, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return packed.Bytes(), nil
}

func add(out io.Writer, file *zip.File) error {
	if _, err := fmt.Fprintf(out, "%s %d\n", file.Name, file.UncompressedSize64); err != nil {
		return err
	}
	content, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	_, err = io.Copy(out, content) //nolint:gosec // Go's own
	return err
}
