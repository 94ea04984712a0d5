package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// shell is the root shell on the console that the second entry of the start menu
// opens.
type shell struct {
	conn net.Conn
	seen []byte // not yet looked at
}

// finding is something that must be so within the machine.
type finding struct {
	what    string
	command string
	good    func(out string) bool
}

// lookWithin starts the machine with the shell, the way that the installer's guide
// says, and looks at the system.
func (t *trial) lookWithin(ctx context.Context) error {
	if err := t.chooseEntry(ctx, "gatehouse-a-shell.conf"); err != nil {
		return err
	}
	m, err := t.powerOn(ctx, losesUnflushed)
	if err != nil {
		return err
	}
	defer m.cutPower()
	if _, err := m.connect(ctx, t.name); err != nil {
		return err
	}
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	var wrong []error
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
	_ = s.conn.Close() // a console that nobody reads holds the machine up
	return errors.Join(errors.Join(wrong...), m.pressButton(ctx), t.chooseEntry(ctx, "gatehouse-a.conf"))
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
		{"the newest of the log of the first start is kept", "zcat /var/lib/gatehouse-log/1.log.gz | grep -c 'Started gatehouse.service'", is("1")},
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

// chooseEntry writes into the boot partition which entry of the start menu is taken.
func (t *trial) chooseEntry(ctx context.Context, entry string) error {
	text, err := t.readBoot(ctx, "loader/loader.conf")
	if err != nil {
		return err
	}
	file := filepath.Join(t.dir, "loader.conf")
	text = regexp.MustCompile(`(?m)^default .*$`).ReplaceAllString(text, "default "+entry)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return t.putOnBoot(ctx, file, "loader/loader.conf")
}

// openShell waits for the shell on the console.
func (m *machine) openShell(ctx context.Context) (*shell, error) {
	prompt := func() error {
		log, err := os.ReadFile(m.log)
		if err == nil && !strings.Contains(string(log), "root@") {
			err = errors.New("there is no prompt")
		}
		return err
	}
	if err := await(ctx, startPatience, "there is a shell on the console", prompt); err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", m.console)
	if err != nil {
		return nil, err
	}
	s := &shell{conn: conn}
	_, err = s.run(ctx, "dmesg -n 1; stty -echo cols 1000; PS1=; bind 'set enable-bracketed-paste off'")
	return s, err
}

// run runs a command and returns what it prints.
func (s *shell) run(ctx context.Context, command string) (string, error) {
	// The quotes keep the echo of the command from looking like its output.
	if _, err := fmt.Fprintf(s.conn, "\n echo 'BEG''IN'; %s; echo 'E''ND'\n", command); err != nil {
		return "", err
	}
	pattern := regexp.MustCompile(`(?s)BEGIN\r?\n(.*?)\r?\n?END\r?\n`)
	deadline := time.Now().Add(startPatience)
	buffer := make([]byte, 4096)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		if found := pattern.FindSubmatchIndex(s.seen); found != nil {
			out := string(s.seen[found[2]:found[3]])
			s.seen = s.seen[found[1]:]
			return strings.TrimSpace(strings.ReplaceAll(out, "\r", "")), nil
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(time.Second))
		n, err := s.conn.Read(buffer)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return "", fmt.Errorf("the console: %w", err)
		}
		s.seen = append(s.seen, buffer[:n]...)
	}
	return "", fmt.Errorf("the console gave no answer to %s: %.2000s", command, s.seen)
}
