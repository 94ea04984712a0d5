package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatehouse/internal/install/updatefile"
)

// family is that of the boards on which the image starts.
const family = "gatehouse-arm64"

// pack writes an update from the parts that scripts/image left, and reads it as a board
// with that image does. Its version is the one in the entry of the boot loader.
func pack(o options) error {
	keys, err := readKeys(o.rest)
	if err != nil {
		return err
	}
	r := updatefile.Release{Family: family, Schema: o.schema, Time: o.time, Scratch: filepath.Dir(o.out)}
	if r.Version, err = versionOf(filepath.Join(o.parts, string(updatefile.Entry))); err != nil {
		return err
	}
	files := map[updatefile.PartName]*os.File{}
	for _, name := range []updatefile.PartName{
		updatefile.Kernel, updatefile.Initrd, updatefile.Entry, updatefile.ShellEntry, updatefile.Root,
	} {
		file, err := os.Open(filepath.Join(o.parts, string(name)))
		if err != nil {
			return fmt.Errorf("a part of the update: %w", err)
		}
		defer func() { _ = file.Close() }()
		files[name] = file
	}
	r.Kernel, r.Initrd, r.Entry, r.ShellEntry, r.Root = files[updatefile.Kernel], files[updatefile.Initrd],
		files[updatefile.Entry], files[updatefile.ShellEntry], files[updatefile.Root]
	out, err := os.OpenFile(o.out, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644) //nolint:gosec // it is to be published
	if err != nil {
		return err
	}
	_, err = updatefile.Pack(out, r, keys...)
	if err == nil {
		err = check(out, o.keys)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(o.out))
	}
	fmt.Println(r.Version)
	return nil
}

// check reads an update with the keys of the image.
func check(file *os.File, path string) error {
	keys, err := updatefile.ReadKeys(path)
	if err != nil {
		return err
	}
	size, err := file.Seek(0, 2)
	if err != nil {
		return err
	}
	update, err := updatefile.Open(file, size, keys)
	if err != nil {
		return err
	}
	ignore := func(int64) {}
	if err := update.Verify(context.Background(), ignore); err != nil {
		return err
	}
	return update.VerifyRoot(context.Background(), ignore)
}

// versionOf returns the version in an entry of the boot loader.
func versionOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("a part of the update: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if version, found := strings.CutPrefix(lines.Text(), "version "); found {
			return strings.TrimSpace(version), nil
		}
	}
	return "", errors.Join(fmt.Errorf("%s has no line \"version\"", path), lines.Err())
}
