package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"gatehouse/scripts/imagetest/fat"
	"gatehouse/scripts/imagetest/tape"
)

// The files of a first start on the boot partition.
const (
	siteFileName = "gatehouse-site.toml"
	wipingName   = "gatehouse-site.toml.wiping"
	doneName     = "gatehouse-site.done.toml"
	resultName   = "gatehouse-result.txt"
)

// recordFirstStart records a first start with all that it writes. Then it cuts the power at
// each of its writes to the boot partition, in a model.
func (t *trial) recordFirstStart(ctx context.Context) error {
	before := filepath.Join(t.dir, "first-before.img")
	if err := errors.Join(copyFile(ctx, t.disk, before), copyFile(ctx, t.disk+".vars", before+".vars")); err != nil {
		return err
	}
	m, err := t.startFirst(ctx, power{record: filepath.Join(t.dir, "first-recording")})
	if err != nil {
		return err
	}
	recording, err := m.disks.Recording(before, before+".vars")
	if err != nil {
		return err
	}
	parts, err := t.partitions(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	j, err := newFirstJudge(recording, parts["boot"], t.site.secrets())
	if err != nil {
		return err
	}
	count, err := j.checkCuts(ctx)
	if err != nil {
		return err
	}
	t.say("model: %d power cuts after which the boot partition differs, of %d writes and flushes of the first start: what the next start finds is whole, and no secret is out of its sight (%.0f s)",
		count, len(recording.Writes), time.Since(began).Seconds())
	return nil
}

// firstJudge judges what a power cut in the first start leaves on the boot partition.
type firstJudge struct {
	recording *tape.Recording
	boot      partition
	secrets   []string
	site      []byte       // as the installer wrote it
	places    []fat.Extent // where that stands, in bytes of the partition
	done      []byte       // the copy without secrets
	result    []byte
}

func newFirstJudge(r *tape.Recording, boot partition, secrets []string) (*firstJudge, error) {
	j := &firstJudge{recording: r, boot: boot, secrets: secrets}
	f, err := j.open(tape.KeepNone)
	if err != nil {
		return nil, err
	}
	if j.site, err = f.ReadFile(siteFileName); err != nil {
		return nil, err
	}
	if j.places, err = f.Extents(siteFileName); err != nil {
		return nil, err
	}
	r.Play(len(r.Writes))
	if f, err = j.open(tape.KeepAll); err != nil {
		return nil, err
	}
	if j.done, err = f.ReadFile(doneName); err != nil {
		return nil, err
	}
	j.result, err = f.ReadFile(resultName)
	return j, err
}

// section returns the boot partition as a power cut at the moment of the recording leaves it.
func (j *firstJudge) section(keep tape.Keep) *io.SectionReader {
	return io.NewSectionReader(j.recording.Cut(card, keep), j.boot.start, j.boot.size)
}

func (j *firstJudge) open(keep tape.Keep) (*fat.FS, error) { return fat.Open(j.section(keep)) }

// checkCuts judges a cut at each write, and returns how many differ.
func (j *firstJudge) checkCuts(ctx context.Context) (count int, err error) {
	j.recording.Rewind(false)
	region := j.recording.Watch(card, j.boot.start, j.boot.size)
	known := map[uint64]bool{}
	for write := 0; write <= len(j.recording.Writes); write++ {
		j.recording.Play(write)
		for _, keep := range keeps(write) {
			if ctx.Err() != nil {
				return count, ctx.Err()
			}
			key := j.recording.Cut(card, keep).Fingerprint(region)
			if known[key] {
				continue
			}
			known[key] = true
			if err := j.check(keep); err != nil {
				return count, fmt.Errorf("the power cut at write %d of %d (%d) of the first start: %w", write, len(j.recording.Writes), keep, err)
			}
		}
	}
	return len(known), nil
}

// check judges one cut by the order in which a first start changes its files: the result, the
// copy without secrets, the name of the site file, its bytes, and that name. What is there
// of a later one shows that the earlier ones were done, so these must be whole.
func (j *firstJudge) check(keep tape.Keep) error {
	f, err := j.open(keep)
	if err != nil {
		return err
	}
	whole := func(name string, want []byte) error {
		if got, err := f.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			return errors.Join(fmt.Errorf("%s is not whole: it has %d of %d bytes, or others", name, len(got), len(want)), err)
		}
		return nil
	}
	lacks := func(name string) bool {
		_, err := f.Extents(name)
		return errors.Is(err, fs.ErrNotExist)
	}
	if !lacks(doneName) {
		if err := whole(resultName, j.result); err != nil {
			return err
		}
	}
	if !lacks(siteFileName) {
		return whole(siteFileName, j.site)
	}
	if err := whole(doneName, j.done); err != nil {
		return err
	}
	if left, err := f.ReadFile(wipingName); err == nil && len(left) == len(j.site) {
		return nil // its bytes may be of before or after
	}
	for _, place := range j.places {
		left := make([]byte, place.Size)
		if _, err := j.section(keep).ReadAt(left, place.Offset); err != nil {
			return err
		}
		for i, secret := range j.secrets {
			if bytes.Contains(left, []byte(secret)) {
				return fmt.Errorf("secret %d of the site file still stands on the boot partition, and no name leads to it", i+1)
			}
		}
	}
	return nil
}
