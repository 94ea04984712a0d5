package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/site"
)

// short is the short form: a version whose kernel panics must fall back, and an update that the
// gateway is asked for must be committed. To save a start, the disk begins as if "gatehouse update" had just installed the version
// that panics.
func (t *trial) short(ctx context.Context) error {
	bad := t.workshop.nextVersion()
	if err := t.leavePending(ctx, bad); err != nil {
		return err
	}
	good := candidate{asked: true}
	var making errgroup.Group
	defer func() { _ = making.Wait() }()
	making.Go(func() (err error) { // a core is free while the machine starts
		good.file, good.version, err = t.makeGood(ctx)
		return err
	})
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return err
	}
	defer func() { _ = m.cutPower() }()
	if err := t.applySite(ctx, m); err != nil {
		return err
	}
	st, err := m.outcome(ctx, bad)
	if err != nil {
		return err
	}
	t.say("a kernel that panics: back on slot %s after %d starts; status says: %s", st.Running.Slot, m.starts(), st.Last.Reason)
	if st.Last.Outcome != site.UpdateFellBack || st.Last.Reason == "" || st.Running.Slot != "a" || st.Default != "a" || m.starts() != 2 {
		return fmt.Errorf("the status is %+v, %+v", st, st.Last)
	}
	if err := making.Wait(); err != nil {
		return err
	}
	e, err := t.expect(ctx, m, good, site.UpdateCommitted)
	if err != nil {
		return err
	}
	t.say("update: committed after %d start and %.0f s: slot %s runs %s", e.starts, e.after.Seconds(), e.status.Running.Slot, e.status.Running.Version)
	if e.starts != 1 || e.status.Running.Slot != "b" || e.status.Default != "b" {
		return fmt.Errorf("the status is %+v", e.status)
	}
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	if options, err := s.run(ctx, "findmnt -no OPTIONS /boot/efi"); err != nil || !strings.HasPrefix(options, "ro,") {
		return errors.Join(err, fmt.Errorf("the boot partition is left with the options %q", options))
	}
	return m.pressButton(ctx)
}

// leavePending prepares that disk: slot b is a copy of slot a whose kernel panics, and the next
// start is to try it.
func (t *trial) leavePending(ctx context.Context, version string) error {
	if err := t.fillOtherSlot(ctx, func(entry string) string {
		entry = strings.Replace(strings.ReplaceAll(panics(entry), t.workshop.version, version), "panic=10", "panic=1", 1)
		entry = strings.TrimRight(entry, "\n") + "\n"
		return entry + strings.Repeat("\n", 512-len(entry))
	}); err != nil {
		return err
	}
	if err := setFirmwareVariable(t.disk+".vars", "LoaderEntryOneShot", "gatehouse-b.conf"); err != nil {
		return err
	}
	all, err := t.partitions(ctx)
	if err != nil {
		return err
	}
	schema, err := newestSchema()
	if err != nil {
		return err
	}
	state := filepath.Join(t.dir, "state.json")
	text := fmt.Sprintf(`{"slots": {"a": {"version": %q, "schema": %d}, "b": {"version": %q, "schema": %d}},
		"trial": {"slot": "b", "version": %q, "online": [], "armed": true}}`, t.workshop.version, schema, version, schema, version)
	data := fmt.Sprintf("%s?offset=%d", t.disk, all["data"].start)
	folder := "/lib/gatehouse-update"
	return errors.Join(os.WriteFile(state, []byte(text), 0o600),
		command(ctx, "debugfs", "-w", "-R", "mkdir "+folder, data),
		command(ctx, "debugfs", "-w", "-R", fmt.Sprintf("write %s %s/state.json", state, folder), data),
		sameInRoot(ctx, data, folder+"/state.json", state))
}
