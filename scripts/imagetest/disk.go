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

// pullData copies the data partition off the disk, repairs the copy as the start
// would, and returns a folder with the data of the gateway.
func (t *trial) pullData(ctx context.Context) (string, error) {
	all, err := t.partitions(ctx)
	if err != nil {
		return "", err
	}
	part, folder := filepath.Join(t.dir, "data.part"), filepath.Join(t.dir, "data")
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	if err := command(ctx, "dd", "if="+t.disk, "of="+part, "bs=1M", "iflag=skip_bytes,count_bytes", "conv=sparse", "status=none",
		fmt.Sprintf("skip=%d", all["data"].start), fmt.Sprintf("count=%d", all["data"].size)); err != nil {
		return "", err
	}
	if err := os.Truncate(part, all["data"].size); err != nil {
		return "", err
	}
	var exit *exec.ExitError
	// 1 says that it has fixed something.
	if err := command(ctx, "e2fsck", "-p", part); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return "", fmt.Errorf("the data partition is not sound: %w", err)
	}
	if err := command(ctx, "debugfs", "-R", "rdump /lib/gatehouse "+folder, part); err != nil {
		return "", err
	}
	// For root, debugfs keeps the owner, who is the board's.
	if err := command(ctx, "chown", "-R", fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()), folder); err != nil {
		return "", err
	}
	return filepath.Join(folder, "gatehouse"), os.Remove(part)
}
