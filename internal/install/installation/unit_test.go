package installation_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kardianos/service"

	"gatehouse/internal/install/installation"
)

// The library makes of our template what this package expects of it. It does so in
// the home folder here, as for a service of one user.
func TestTemplate_library(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", home)
	if err := os.WriteFile(home+"/systemctl", []byte("#!/bin/sh\necho \"$*\" >> "+home+"/calls\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	template, err := installation.Template("gatehouse.service")
	if err != nil {
		t.Fatal(err)
	}
	if err := libraryOfUser(t, template).Install(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(home + "/.config/systemd/user/gatehouse.service")
	if err != nil {
		t.Fatal(err)
	}
	want, err := installation.UnitText("gatehouse.service", program)
	if err != nil || string(got) != want {
		t.Errorf("got\n%s\nwant\n%s (%v)", got, want, err)
	}
	calls, err := os.ReadFile(home + "/calls")
	if err != nil || !strings.Contains(string(calls), "enable") || !strings.Contains(string(calls), "daemon-reload") {
		t.Errorf("it has called %q, %v", calls, err)
	}
}

func libraryOfUser(t *testing.T, template string) service.Service {
	t.Helper()
	for _, system := range service.AvailableSystems() {
		if system.String() == "linux-systemd" {
			s, err := system.New(nil, &service.Config{
				Name: "gatehouse", Executable: program,
				Option: service.KeyValue{"UserService": true, "SystemdScript": template},
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	t.Fatal("the library knows no systemd")
	return nil
}

func TestAsTemplate_refuses(t *testing.T) {
	const unit = "[Service]\nExecStart=/usr/bin/gatehouse serve\n"
	if got, err := installation.AsTemplate(unit); err != nil || got != "[Service]\nExecStart={{Path}} serve\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{unit + "# {{", unit + "# {{x}}", unit + "}}", "[Service]\nExecStart=/usr/sbin/gatehouse serve\n", "# ExecStart=/usr/bin/gatehouse serve"} {
		if got, err := installation.AsTemplate(text); err == nil {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

const verifier = "systemd-analyze" //nolint:misspell // its name

// systemd has nothing to complain of in what is installed.
func TestUnitText_verified(t *testing.T) {
	m := newMachine(t)
	m.write("/bin/kill", "")
	m.must(os.Chmod(m.at("/bin/kill"), 0o755))
	for _, unit := range []string{"gatehouse.service", "gatehouse.socket", "gatehouse-redirect.socket", "gatehouse-site.service", "gatehouse-notice.path", "gatehouse-notice.service"} {
		text, err := installation.UnitText(unit, program)
		m.must(err)
		m.write("/etc/systemd/system/"+unit, text)
	}
	if out, err := verify(t, m.root); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	m.write("/etc/systemd/system/gatehouse.service", m.text("/etc/systemd/system/gatehouse.service")+"Wanted=x\n")
	if out, err := verify(t, m.root); err == nil && out == "" {
		t.Error("it does not complain of a wrong unit either")
	}
}

func verify(t *testing.T, root string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), verifier, "verify", "--recursive-errors=no", "--man=no", "--root="+root,
		"gatehouse.service", "gatehouse.socket", "gatehouse-redirect.socket", "gatehouse-site.service", "gatehouse-notice.path", "gatehouse-notice.service")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%s is missing: scripts/setup installs it", verifier)
	}
	return string(out), err
}

// A program is found where only root has it in its path, and its complaint is told.
func TestRunProgram(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	script := "#!/bin/sh\necho out\necho 'it is broken' >&2\necho more >&2\nexit $1\n"
	if err := os.WriteFile(filepath.Join(bin, "tool"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := installation.RunProgram(t.Context(), "tool", "0"); out != "out\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := installation.RunProgram(t.Context(), "tool", "3"); err == nil || err.Error() != "tool 3: it is broken" {
		t.Errorf("error %v", err)
	}
	if _, err := installation.RunProgram(t.Context(), "no-such-tool"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	if _, err := installation.RunProgram(t.Context(), "useradd", "--help"); err != nil {
		t.Errorf("useradd, which is in /usr/sbin: %v", err)
	}
}
