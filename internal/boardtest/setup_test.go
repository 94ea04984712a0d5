//go:build board

package boardtest_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
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
		// agetty shows every file there above its prompt.
		const issue = "/run/issue.d/gatehouse.issue"
		if text := b.sh("cat " + issue); !strings.Contains(text, found[1]) || !strings.Contains(text, b.address) {
			t.Errorf("the text console shows %q, and the log the code %s", text, found[1])
		}
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
		b.await("the console shows the code no longer", func() bool {
			_, err := b.try("test ! -e " + issue)
			return err == nil
		})
	})
}
