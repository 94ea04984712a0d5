package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// partition is a part of the disk, in bytes.
type partition struct{ start, size int64 }

// partitions returns those of the disk by their names.
func (t *trial) partitions(ctx context.Context) (map[string]partition, error) {
	out, err := output(ctx, "sfdisk", "--json", t.disk)
	if err != nil {
		return nil, err
	}
	if i := strings.IndexByte(out, '{'); i > 0 {
		out = out[i:] // a remark about the table stands before it
	}
	var table struct {
		PartitionTable struct {
			Partitions []struct {
				Name        string
				Start, Size int64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		return nil, fmt.Errorf("reading the partition table: %w", err)
	}
	all := map[string]partition{}
	for _, p := range table.PartitionTable.Partitions {
		all[p.Name] = partition{start: p.Start * 512, size: p.Size * 512}
	}
	for _, name := range []string{"boot", "root-a", "root-b", "data"} {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("the disk has no partition %q", name)
		}
	}
	return all, nil
}

// bootImage returns how mtools name the boot partition.
func (t *trial) bootImage() string { return t.disk + "@@1M" }

func (t *trial) putOnBoot(ctx context.Context, file, name string) error {
	return command(ctx, "mcopy", "-o", "-i", t.bootImage(), file, "::"+name)
}

// readBoot returns the content of a file on the boot partition.
func (t *trial) readBoot(ctx context.Context, name string) (string, error) {
	return output(ctx, "mtype", "-i", t.bootImage(), "::"+name)
}

// leftOnBoot reports the secrets of the site file whose bytes are still anywhere on
// the boot partition, in files or between them.
func (t *trial) leftOnBoot(ctx context.Context) error {
	all, err := t.partitions(ctx)
	if err != nil {
		return err
	}
	disk, err := os.Open(t.disk)
	if err != nil {
		return err
	}
	defer disk.Close()
	raw, err := io.ReadAll(io.NewSectionReader(disk, all["boot"].start, all["boot"].size))
	if err != nil {
		return err
	}
	for i, secret := range t.site.secrets() {
		if at := bytes.Index(raw, []byte(secret)); at >= 0 {
			return fmt.Errorf("secret %d of the site file still stands on the boot partition, at byte %d", i+1, at)
		}
	}
	return nil
}

// pullData returns what is on the data partition of the machine, which is off.
func (t *trial) pullData(ctx context.Context) data {
	all, err := t.partitions(ctx)
	if err != nil {
		return data{err: err}
	}
	part := filepath.Join(t.dir, "data.part")
	if err := cutOut(ctx, t.disk, all["data"], part); err != nil {
		return data{err: err}
	}
	d := t.readData(ctx, part, filepath.Join(t.dir, "data"))
	d.err = errors.Join(d.err, os.Remove(part))
	return d
}

// cutOut copies a partition of a disk to a file.
func cutOut(ctx context.Context, disk string, p partition, part string) error {
	if err := command(ctx, "dd", "if="+disk, "of="+part, "bs=1M", "iflag=skip_bytes,count_bytes", "conv=sparse", "status=none",
		fmt.Sprintf("skip=%d", p.start), fmt.Sprintf("count=%d", p.size)); err != nil {
		return err
	}
	return os.Truncate(part, p.size)
}

// repair repairs a data partition as packaging/image/init does. With half a superblock
// written, e2fsck takes a copy of it, stops, and is well the next time.
func repair(ctx context.Context, part string) error {
	err := check(ctx, "-p", part)
	for range 2 {
		if err != nil {
			err = check(ctx, "-fy", part)
		}
	}
	return err
}

func check(ctx context.Context, how, part string) error {
	err := command(ctx, "e2fsck", how, part)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 4 { // it has repaired something
		return nil
	}
	if err != nil {
		err = fmt.Errorf("the data partition is not sound: %w", err)
	}
	return err
}
