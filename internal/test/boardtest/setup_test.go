//go:build board

package boardtest_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"gatehouse/internal/test/await"
)

// A new board shows a code, in its log and on its text console, with which the first
// administrator makes an account.
func TestSetupCode(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		found := regexp.MustCompile(`setup_code=(\S+)`).FindStringSubmatch(b.logged(service))
		if found == nil {
			t.Fatal("the log shows no setup code")
		}
		await.Until(b, "the console shows the code", func() bool { return strings.Contains(b.shownIssue(), found[1]) })
		if text := b.shownIssue(); !strings.Contains(text, b.address) || strings.Count(text, found[1]) != 1 {
			t.Errorf("the text console shows %q, and the log the code %s", text, found[1])
		}

		// The user of the service has no file of root's shown in its place.
		b.sh("echo secret-of-root >/root/secret; chmod 600 /root/secret; setpriv --reuid=gatehouse --regid=gatehouse --clear-groups sh -euc " +
			"'cd /run/gatehouse; rm setup.issue; ln -s /root/secret setup.issue'")
		await.Until(b, "the console shows the code no longer", func() bool { return !strings.Contains(b.shownIssue(), found[1]) })
		if text := b.shownIssue(); strings.Contains(text, "secret-of-root") {
			t.Errorf("the text console shows %q", text)
		}
		b.sh("systemctl restart " + service)
		await.Until(b, "the console shows the code again", func() bool { return strings.Contains(b.shownIssue(), found[1]) })

		// A change while root copies the one before is shown too: here a restart, which
		// removes the code and writes it again.
		await.Until(b, "the console is done", func() bool { return b.property("gatehouse-notice.service", "SubState") == "running" })
		b.write("/etc/systemd/system/gatehouse-notice.service.d/hold.conf",
			"[Service]\nExecStartPost=+/bin/sh -c 'test ! -p /run/hold || cat /run/hold'\n")
		b.sh("systemctl daemon-reload; mkfifo /run/hold; cd /run/gatehouse; " +
			"setpriv --reuid=gatehouse --regid=gatehouse --clear-groups sh -euc 'echo other >setup.issue'; " +
			"exec 3>/run/hold; rm /run/hold; " + // opens when the copy is held
			"grep other /run/gatehouse-notice/gatehouse.issue; systemctl restart " + service + "; grep " + found[1] + " /run/gatehouse/setup.issue; " +
			"exec 3>&-")
		await.Until(b, "the console shows the code after a change during a copy", func() bool { return strings.Contains(b.shownIssue(), found[1]) })

		d := b.unknownDoor()
		d.trust(b.authority())
		for code, want := range map[string]bool{"AAAA-AAAA": false, found[1]: true} {
			body := fmt.Sprintf(`{"code":%q,"email":%q,"password":%q}`, code, email, password)
			got, err := d.ask(http.MethodPost, "/local/v1/setup", body)
			if err != nil || (got.status/100 == 2) != want {
				t.Errorf("setup with the code %s: %d %s %v", code, got.status, got.body, err)
			}
			if strings.Contains(string(got.body), password) {
				t.Error("the answer tells the password")
			}
		}
		d.login()
		await.Until(b, "the console shows the code no longer", func() bool { return !strings.Contains(b.shownIssue(), found[1]) })
	})
}

// shownIssue is what the login prompt of the text console shows above it: Debian's own
// agetty says, which wants a terminal.
func (b *board) shownIssue() string {
	b.Helper()
	return b.sh("script --quiet --return --command 'agetty --show-issue' /dev/null </dev/null")
}
