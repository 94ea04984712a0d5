package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// mostStarts bounds the starts of a version that does not start or is not well: the old one
// runs again. The trial's own timers bound the time, which an emulator stretches.
const mostStarts = 3

// systemdPatience is how long systemd waits for a service by default: the gateway has waited at
// least as long, by the board's own time, if it waits for one that hangs.
const systemdPatience = 90 * time.Second

// candidate is a version that the board tries: one that must not stay, or a good one.
type candidate struct {
	what    string // what is bad about it
	file    string
	version string
	absent  bool // its stations do not come back
	asked   bool // through the gateway, over HTTPS; else by root
}

// panics is an entry whose kernel panics: it finds neither a program to start in the initrd nor a
// root without it.
func panics(entry string) string {
	return strings.Replace(entry, " gatehouse.slot", " rdinit=/nonexistent gatehouse.slot", 1)
}

// neverReady is an entry whose gateway does not run.
func neverReady(entry string) string {
	return strings.Replace(entry, " gatehouse.slot", " systemd.mask=gatehouse.service gatehouse.slot", 1)
}

// hangTimesync replaces the time service by one that never gets ready.
const hangTimesync = `mount_boot
mount -t tmpfs -o mode=755 run /root/run
mkdir -p /root/run/systemd/system/systemd-timesyncd.service.d
printf '[Service]\nExecStart=\nExecStart=/usr/bin/sleep infinity\n' >/root/run/systemd/system/systemd-timesyncd.service.d/90-hang.conf`

// badSlots installs versions that must not stay, one after the other, and after them a
// good one whose time service hangs.
func (t *trial) badSlots(ctx context.Context) error {
	name, version, err := t.makeGood(ctx)
	if err != nil {
		return err
	}
	t.say("made the update to %s: %d MB", version, t.workshop.good.Manifest.Parts[4].Size/1e6)
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return err
	}
	defer func() { _ = m.cutPower() }()
	for _, b := range []struct {
		what, file string
		v          variant
	}{
		{"a kernel that panics (no program in the initrd)", "panic.update", variant{entry: panics}},
		{"an initrd that hangs (after it has armed the watchdog)", "hang.update", variant{initrd: t.withInit(ctx, "repair", "while :; do sleep 1000; done")}},
		{"a program that cannot run", "broken.update", variant{initrd: t.withInit(ctx, "mount_boot", "mount_boot; mount -o bind /root/etc/hostname /root/usr/bin/gatehouse")}},
		{"a boot partition that cannot be mounted", "unmounted.update", variant{initrd: t.withInit(ctx, "mount_boot", ":")}},
		{"a daemon that never gets ready (its unit does not run)", "unready.update", variant{entry: neverReady}},
	} {
		bad := candidate{what: b.what, file: b.file}
		if bad.version, err = t.workshop.makeVariant(b.file, b.v); err != nil {
			return err
		}
		if err := t.fallBack(ctx, m, bad); err != nil {
			return err
		}
	}
	bad := candidate{what: "stations that do not come back", file: name, version: version, absent: true}
	if err := t.fallBack(ctx, m, bad); err != nil {
		return err
	}
	if bad, err = t.unmigratable(ctx); err != nil {
		return err
	}
	if err := t.fallBack(ctx, m, bad); err != nil {
		return err
	}
	if _, _, err = t.makeGood(ctx); err != nil {
		return err
	}
	if err := t.timeless(ctx, m); err != nil {
		return err
	}
	return m.pressButton(ctx)
}

// timeless installs a version whose time service never gets ready. The gateway starts after that
// service, but must not wait for it as long as systemd does by default.
func (t *trial) timeless(ctx context.Context, m *machine) error {
	good := candidate{file: "timeless.update"}
	var err error
	if good.version, err = t.workshop.makeVariant(good.file, variant{initrd: t.withInit(ctx, "mount_boot", hangTimesync)}); err != nil {
		return err
	}
	e, err := t.expect(ctx, m, good, site.UpdateCommitted)
	if err != nil {
		return err
	}
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	hung, err := s.run(ctx, "journalctl --boot --unit systemd-timesyncd --output cat | grep -o -m 1 'start operation timed out' || echo it did not hang")
	if err != nil {
		return err
	}
	service, errService := s.firstStart(ctx, "systemd-timesyncd")
	gateway, errGateway := s.firstStart(ctx, "gatehouse")
	if err := errors.Join(errService, errGateway); err != nil {
		return err
	}
	waited := gateway - service
	t.say("a time service that hangs: slot %s committed; the gateway waited for %.0f s", e.status.Running.Slot, waited.Seconds())
	if hung != "start operation timed out" || waited >= systemdPatience {
		return fmt.Errorf("the gateway waited %s for a time service that is to hang: %s", waited, hung)
	}
	return nil
}

// firstStart returns when a service was first started since the kernel was.
func (s *shell) firstStart(ctx context.Context, service string) (time.Duration, error) {
	out, err := s.run(ctx, `journalctl --boot --output short-monotonic | sed -n 's/^\[ *\([0-9.]*\)\].* Starting `+service+`\.service .*/\1s/p' | head -n 1`)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(out)
}

// unmigratable makes an update whose migration fails: it makes a table that is there.
func (t *trial) unmigratable(ctx context.Context) (bad candidate, err error) {
	here, err := filepath.Abs("internal/record/sqlite/migrations_next/next.sql")
	if err != nil {
		return bad, err
	}
	sql, overlay := filepath.Join(t.dir, "broken.sql"), filepath.Join(t.dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {here: sql}})
	if err != nil {
		return bad, err
	}
	if err := errors.Join(os.WriteFile(sql, []byte("CREATE TABLE journal (id INTEGER PRIMARY KEY) STRICT;\n"), 0o600),
		os.WriteFile(overlay, text, 0o600)); err != nil {
		return bad, err
	}
	bad = candidate{what: "a database that cannot be migrated", file: "unmigratable.update", version: t.workshop.nextVersion()}
	root := filepath.Join(t.dir, "root.next")
	if err := t.makeRoot(ctx, root, bad.version, "-overlay", overlay); err != nil {
		return bad, err
	}
	return bad, t.workshop.pack(root, bad.version, filepath.Join(t.workshop.folder, bad.file))
}

// withInit returns what adds to an initrd a first program in which a line is another.
func (t *trial) withInit(ctx context.Context, line, other string) func([]byte) []byte {
	return func(initrd []byte) []byte {
		folder := filepath.Join(t.dir, "initrd")
		text, err := os.ReadFile("packaging/image/init")
		if err == nil {
			err = os.MkdirAll(folder, 0o700)
		}
		changed := bytes.Replace(text, []byte("\n"+line+"\n"), []byte("\n"+other+"\n"), 1)
		if err == nil && bytes.Equal(changed, text) {
			err = errors.New("packaging/image/init has no line " + line)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "init"), changed, 0o700) //nolint:gosec // a program
		}
		cmd := exec.CommandContext(ctx, "cpio", "--quiet", "--create", "--format=newc", "--owner=0:0")
		cmd.Dir, cmd.Stdin = folder, strings.NewReader("init\n")
		var archive []byte
		if err == nil {
			archive, err = cmd.Output()
		}
		if err != nil {
			t.say("the changed initrd: %v", err)
			return nil // an initrd that is empty is found out
		}
		for len(initrd)%4 != 0 { // the kernel looks for the next archive there
			initrd = append(initrd, 0)
		}
		return append(initrd, archive...)
	}
}

// fallBack installs a version that must not stay.
func (t *trial) fallBack(ctx context.Context, m *machine, bad candidate) error {
	e, err := t.expect(ctx, m, bad, site.UpdateFellBack)
	if err != nil {
		return fmt.Errorf("%s: %w", bad.what, err)
	}
	t.say("%s: back on slot %s after %d starts and %.0f s; status says: %s",
		bad.what, e.status.Running.Slot, e.starts, e.after.Seconds(), e.status.Last.Reason)
	switch {
	case e.starts > mostStarts:
		return fmt.Errorf("%s: more than %d starts", bad.what, mostStarts)
	case e.status.Last.Reason == "" || e.status.Default != e.status.Running.Slot:
		return fmt.Errorf("%s: the status is %+v", bad.what, e.status)
	}
	return nil
}

// ended is how an update ended.
type ended struct {
	status site.UpdateStatus
	starts int
	after  time.Duration // since it restarted
}

// expect installs an update and expects an outcome.
func (t *trial) expect(ctx context.Context, m *machine, b candidate, want site.UpdateOutcome) (e ended, err error) {
	c, err := m.connect(ctx, t.name)
	if err != nil {
		return e, err
	}
	stop, err := t.playStations(ctx, m)
	if err != nil {
		return e, err
	}
	defer func() { stop() }()
	if err := t.stationsOnline(ctx, m); err != nil {
		return e, err
	}
	began := time.Now()
	command := "gatehouse update " + t.updates + b.file
	if b.asked {
		command = "the gateway, asked for " + t.secure + b.file
		err = t.order(ctx, m, c, t.secure+b.file)
	} else {
		err = t.install(ctx, m, command)
	}
	if err != nil {
		return e, err
	}
	before, restarted := m.starts(), time.Now()
	if b.absent {
		stop()
		stop = func() {}
	}
	t.say("%s: restarts after %.0f s", command, restarted.Sub(began).Seconds())
	if e.status, err = m.outcome(ctx, b.version); err != nil {
		return e, err
	}
	e.starts, e.after = m.starts()-before+1, time.Since(restarted)
	t.say("status: %s", strings.Join(e.status.Sentences(time.UTC), " "))
	if e.status.Last.Outcome != want {
		return e, fmt.Errorf("the update to %s is %s: %s; want %s", b.version, e.status.Last.Outcome, e.status.Last.Reason, want)
	}
	return e, nil
}
