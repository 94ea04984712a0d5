//go:build board

package boardtest_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"gatehouse/internal/test/await"
)

const program = "/usr/local/bin/gatehouse"

// written lists the files and folders that an installation by hand writes.
const written = "find /etc /run/gatehouse-notice -not -type d -iname '*gatehouse*' 2>/dev/null || true; find /run -maxdepth 1 -name gatehouse-notice"

// A program that was copied by hand becomes the same service as the package's, and
// goes again.
func TestServiceCommand(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := startBoard(t, suite)
		b.putProgram()

		b.sh("mkdir --parents /etc/gatehouse && echo 'wrong' >/etc/gatehouse/gatehouse.toml")
		mess := b.everything()
		if out, err := b.try(program + " service install"); err == nil || !strings.Contains(out, "/etc/gatehouse/gatehouse.toml:1") {
			t.Errorf("with a wrong configuration: %v\n%s", err, out)
		}
		b.mustBe(mess)
		b.sh("rm -r /etc/gatehouse")

		// Fails at the last step: another program has a port. The user and the folders stay.
		b.occupy("8883")
		if out, err := b.try(program + " service install"); err == nil || !strings.Contains(out, "another program holds port 8883") {
			t.Errorf("service install without its port: %v\n%s", err, out)
		}
		b.sh("systemctl stop occupant")
		b.mustBeGone()
		if left := b.sh(written); left != "" {
			t.Errorf("the failed installation has left:\n%s", left)
		}

		b.sh(program + " service install")
		b.awaitReady()
		d := b.startDoor(1042)
		d.mustOpen()
		if user := b.sh("stat --format=%U /proc/" + b.property(service, "MainPID")); user != "gatehouse\n" {
			t.Errorf("the gateway runs as %s", user)
		}
		if out, err := b.try(program + " service status"); err != nil || !strings.Contains(out, "running") {
			t.Errorf("service status: %v\n%s", err, out)
		}
		pid := b.number(service, "MainPID")
		b.sh(program + " service restart")
		b.awaitActive(pid)
		d.mustOpen()
		checkRestart(b, d)
		b.sh(program + " service install") // once more, which keeps everything
		d.mustOpen()
		b.sh(program + " service stop")
		if out, err := b.try(program + " service status"); err == nil {
			t.Errorf("service status of a stopped service succeeds: %s", out)
		}
		b.sh(program + " service start")
		d.mustOpen()

		b.sh(program + " service uninstall")
		b.mustBeGone()
		if left := b.sh(written); left != "/etc/gatehouse/gatehouse.toml\n" {
			t.Errorf("the uninstallation has left:\n%s", left)
		}
		b.sh("test -s " + database)
	})
}

// checkRestart: when the gateway restarts itself, systemd starts it again.
func checkRestart(b *board, d *door) {
	pid := b.number(service, "MainPID")
	b.sh("echo correct horse battery | " + program + " account add chief@example.test --admin --password-stdin")
	client := &http.Client{Timeout: await.Patience, Transport: d.client.Transport}
	url := "https://" + b.address
	got, err := request{method: http.MethodPost, url: url + "/v1/auth/login", body: `{"email":"chief@example.test","password":"correct horse battery"}`}.send(client)
	var tokens struct{ AccessToken string }
	if err != nil || json.Unmarshal(got.body, &tokens) != nil {
		b.Fatalf("login: %v %s", err, got.body)
	}
	got, err = request{method: http.MethodPost, url: url + "/admin/v1/restart", bearer: tokens.AccessToken}.send(client)
	if err != nil || got.status != http.StatusAccepted {
		b.Fatalf("restart: %v %d %s", err, got.status, got.body)
	}
	b.awaitActive(pid)
	d.mustOpen()
}

// putProgram copies the program to the board by hand.
func (b *board) putProgram() {
	b.Helper()
	unpacked := b.dir + "/unpacked"
	b.must(command("dpkg-deb", "--extract", deb(b.T, version), unpacked))
	b.must(exec.Command("cp", unpacked+"/usr/bin/gatehouse", b.file(program)).Run())
}

// everything lists what an installation could leave behind.
func (b *board) everything() string {
	b.Helper()
	return b.sh(`find /etc /usr/local /var/lib /opt -newermt '1970-01-01' -not -path '/var/lib/systemd/*' -not -path '/etc/.pwd.lock' \
		-not -name 'group*' -not -name 'passwd*' -not -name 'shadow*' -not -name 'gshadow*' -not -name 'subuid*' -not -name 'subgid*' | sort
		cut --delimiter=: --fields=1 /etc/passwd /etc/group | sort
		systemctl list-unit-files --no-legend 'gatehouse*' || true
		systemctl list-units --all --no-legend --plain 'gatehouse*'
		systemctl --failed --no-legend --plain`)
}

// mustBe sees that nothing was left behind.
func (b *board) mustBe(before string) {
	b.Helper()
	after := b.everything()
	if after == before {
		return
	}
	for line := range strings.Lines(after) {
		if !strings.Contains(before, line) {
			b.Errorf("left behind: %s", line)
		}
	}
	for line := range strings.Lines(before) {
		if !strings.Contains(after, line) {
			b.Errorf("missing: %s", line)
		}
	}
}
