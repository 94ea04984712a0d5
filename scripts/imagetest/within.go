package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// finding is something that must be so within the machine.
type finding struct {
	what    string
	command string
	good    func(out string) bool
}

// lookWithin starts the machine with the shell, the way that the installer's guide
// says, and looks at the system.
func (t *trial) lookWithin(ctx context.Context) error {
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return err
	}
	defer func() { _ = m.cutPower() }()
	if _, err := m.connect(ctx, t.name); err != nil {
		return err
	}
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	if bytes.Contains(m.thisStart(), []byte("can't execute")) {
		wrong = append(wrong, fmt.Errorf("the start calls a program that is not there (the console is in %s)", m.log))
	}
	for _, f := range t.findings() {
		out, err := s.run(ctx, f.command)
		if err != nil {
			return err
		}
		if !f.good(out) {
			wrong = append(wrong, fmt.Errorf("not so: %s: %s says:\n%s", f.what, f.command, out))
			continue
		}
		t.say("within: %s", f.what)
	}
	return errors.Join(errors.Join(wrong...), m.pressButton(ctx))
}

// findings are what the installer's guide promises.
func (t *trial) findings() []finding {
	is := func(want string) func(string) bool { return func(out string) bool { return out == want } }
	has := func(want string) func(string) bool {
		return func(out string) bool { return strings.Contains(out, want) }
	}
	return []finding{
		{"the system is running", "systemctl is-system-running --wait", is("running")},
		{"no unit has failed", "systemctl --failed --no-legend --plain", is("")},
		{"the system's partition is read-only", "findmnt -no OPTIONS / | cut -d, -f1", is("ro")},
		{"the boot partition is read-only", "findmnt -no OPTIONS /boot/efi | cut -d, -f1", is("ro")},
		{"the data partition fills the disk", "findmnt -bno SIZE /var", func(out string) bool {
			bytes, err := strconv.ParseInt(out, 10, 64)
			return err == nil && bytes > (t.size-2100)<<20
		}},
		{"the second partition table is at the end of the disk", "dmesg | grep -c 'Alternate GPT header not at the end'", is("0")},
		{"the site file is not applied again", "systemctl show --property ConditionResult --value gatehouse-site.service", is("no")},
		{"the other partition table still has the boot partition for a Raspberry Pi", "od -An -tx1 -j450 -N1 /dev/vda", is("0c")},
		{"only slot a can be started", "ls /boot/efi/gatehouse/a /boot/efi/gatehouse/b | paste -sd' '", is("/boot/efi/gatehouse/a: initrd vmlinuz  /boot/efi/gatehouse/b:")},
		{"the entries of the start menu are a sector each", "stat -c %s /boot/efi/loader/entries/*.conf | paste -sd' '", is("512 512 512 512")},
		{"the system log is in memory", "ls -d /run/log/journal /var/log/journal 2>/dev/null", is("/run/log/journal")},
		{
			"what the log has since then is appended, once", "systemctl reload gatehouse-log; systemctl reload gatehouse-log; zcat /var/lib/gatehouse-log/0.log.gz | grep -c 'Started gatehouse.service'",
			is("1"),
		},
		{"the newest of the log of the first start is kept", "zcat /var/lib/gatehouse-log/1.log.gz | grep -c 'gatehouse-site.toml was applied'", is("1")},
		{"to its end", "zcat /var/lib/gatehouse-log/1.log.gz | grep -m1 -c 'Stopped gatehouse.service'", is("1")},
		{"root has no password", "passwd --status root | cut -d' ' -f2", is("L")},
		{
			"nothing but the gateway and DNS listens", "ss -Hltn | awk '{print $4}' | sed 's/.*://' | sort -nu | paste -sd' '",
			is("53 80 443 1883 8080 8883"),
		},
		{"the system has the name of the gateway", "hostname", is(siteName)},
		{"the board's watchdog is armed", "cat /sys/class/watchdog/watchdog0/state", is("active")},
		{"the doctor finds nothing worse than a notice", "gatehouse doctor && echo well", has("well")},
	}
}
