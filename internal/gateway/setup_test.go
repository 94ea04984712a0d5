package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

const setupPath = "/local/v1/setup"

// setupBody is a claim to be the first administrator.
func setupBody(code, email, password string) []byte {
	text, _ := json.Marshal(map[string]string{"code": code, "email": email, "password": password})
	return text
}

// setupCode reads the code where an installer does: in the log.
func setupCode(t *testing.T, g *gatewaytest.Gateway) string {
	t.Helper()
	found := regexp.MustCompile(`setup_code=(\S+)`).FindAllStringSubmatch(g.Log(), -1)
	if len(found) != 1 {
		t.Fatalf("the log tells %d codes\n%s", len(found), g.Log())
	}
	return found[0][1]
}

// An installer reads the code in the log or on the console and makes the first
// administrator with it; then the code is gone from everywhere.
func TestGateway_setup(t *testing.T) {
	runtime := t.TempDir()
	t.Setenv("RUNTIME_DIRECTORY", runtime+":/run/other")
	cfg := gatewaytest.Configure(t)
	cfg.Name = "north-gate"
	cfg.HTTP.TLSListen = []string{"[::]:0"}
	g := gatewaytest.Run(t, cfg)
	code := setupCode(t, g)
	issue, err := os.ReadFile(filepath.Join(runtime, "setup.issue"))
	address := "https://"
	if name := machine.NetworkName(); name != "" { // the machine's, which is the one that others find
		address += name + ".local:"
	}
	for _, want := range []string{`Gatehouse "north-gate" has no administrator yet.`, "Setup code   " + code + "\n", address, fingerprintLines(t, g)} {
		if !strings.Contains(string(issue), want) || strings.Contains(string(issue), `\`) { // agetty(8) takes a backslash as its own
			t.Errorf("the console (%v) does not show %q:\n%s", err, want, issue)
		}
	}
	kept := filepath.Join(cfg.Data, "setup.code")
	for _, path := range []string{kept, filepath.Join(runtime, "setup.issue")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, want it for its owner alone", path, err)
		}
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g = gatewaytest.Run(t, cfg)
	if again := setupCode(t, g); again != code {
		t.Errorf("after a restart the code is %s, not %s", again, code)
	}
	answers := claims(t, g, code)
	if a := g.Do(http.MethodPost, "/v1/auth/login", "", []byte(`{"email":"owner@example.test","password":"correct horse battery"}`)); a.Status != http.StatusOK {
		t.Errorf("the administrator logs in: %d %s", a.Status, a.Body)
	}
	record := g.AwaitRecord("the account", func(r site.Record) bool { return r.Kind == site.KindAccountAdded })
	if record.By != "setup code" || record.Origin != site.Admin || record.Email != "owner@example.test" {
		t.Errorf("the journal says %+v", record)
	}
	accounts, err := g.Admin.Accounts(t.Context())
	if err != nil || len(accounts) != 1 || !accounts[0].Admin {
		t.Errorf("the accounts are %+v, %v", accounts, err)
	}
	g.Await("the files are gone", func() bool { return gone(kept) && gone(filepath.Join(runtime, "setup.issue")) })
	records, err := json.Marshal(g.Records())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(g.Log(), code); n != 1 {
		t.Errorf("the log tells the code %d times\n%s", n, g.Log())
	}
	for name, text := range contents(t, cfg.Data, runtime) {
		if strings.Contains(text, code) || strings.Contains(text, strings.ReplaceAll(code, "-", "")) {
			t.Errorf("%s holds the code", name)
		}
	}
	if strings.Contains(answers+string(records), code) || strings.Contains(g.Log()+answers+string(records), "correct horse") {
		t.Error("an answer, the journal or the log holds the code or the password")
	}
	g = gatewaytest.Run(t, cfg)
	if strings.Contains(g.Log(), "setup_code") || !gone(kept) || g.Do(http.MethodPost, setupPath, "", setupBody(code, "b@example.test", "correct horse")).Status != http.StatusNotFound {
		t.Errorf("there is a code although somebody has an account\n%s", g.Log())
	}
}

// fingerprintLines returns how the console shows the fingerprint that the status has.
func fingerprintLines(t *testing.T, g *gatewaytest.Gateway) string {
	t.Helper()
	status, err := g.Admin.Status(t.Context())
	if err != nil || len(status.Certificate.AuthorityFingerprint) != 95 {
		t.Fatalf("the status has no fingerprint: %v", err)
	}
	f := status.Certificate.AuthorityFingerprint
	if page := g.Do(http.MethodGet, "/trust", "", nil); !strings.Contains(string(page.Body), strings.ReplaceAll(f, ":", ":<wbr>")) {
		t.Errorf("/trust shows another fingerprint: %s", page.Body)
	}
	return "  Fingerprint  " + f[:48] + "\n               " + f[48:] + "\n"
}

// claims tries the code well and badly and returns all answers.
func claims(t *testing.T, g *gatewaytest.Gateway, code string) string {
	t.Helper()
	var said strings.Builder
	for _, c := range []struct {
		code, email, password string
		status                int
		says                  string
	}{
		{"AAAA-AAAA", "owner@example.test", "correct horse battery", 403, "The setup code is wrong; the log of the gateway and its text console show it"},
		{code, "owner@example.test", "short", 400, "The password is too short: 8 characters at least"},
		{code, "nobody", "correct horse battery", 400, `"nobody" is not an e-mail address: write it like porter@example.test`},
		{strings.ToLower(code), "owner@example.test", "correct horse battery", 201, ""},
		{code, "thief@example.test", "correct horse battery", 404, "Not found"},
		{"AAAA-AAAA", "thief@example.test", "correct horse battery", 404, "Not found"},
	} {
		a := g.Do(http.MethodPost, setupPath, "", setupBody(c.code, c.email, c.password))
		fmt.Fprintf(&said, "%s %v\n", a.Body, a.Header)
		want, _ := json.Marshal(map[string]string{"message": c.says})
		if a.Status != c.status || c.says != "" && !bytes.Equal(bytes.TrimSpace(a.Body), want) || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got %d %s, want %d %s", c.email, a.Status, a.Body, c.status, want)
		}
		if c.status == 201 && !regexp.MustCompile(`^\{"accountId":"[0-9a-f-]{36}","email":"owner@example\.test"\}\n$`).Match(a.Body) {
			t.Errorf("the answer is %s", a.Body)
		}
	}
	return said.String()
}

func gone(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// contents returns the text of every regular file of the folders.
func contents(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			path := filepath.Join(folder, e.Name())
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(text)
		}
	}
	return all
}

// An account that is made by other means ends it too, without a restart.
func TestGateway_setup_otherAccount(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", "")
	cfg := gatewaytest.Configure(t)
	g := gatewaytest.Run(t, cfg)
	code, issue := setupCode(t, g), filepath.Join(cfg.Data, "setup.issue")
	if gone(issue) {
		t.Error("without systemd, there is no notice beside the data")
	}
	if _, err := g.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: gatewaytest.Email}); err != nil {
		t.Fatal(err)
	}
	if a := g.Do(http.MethodPost, setupPath, "", setupBody(code, "b@example.test", "correct horse")); a.Status != http.StatusNotFound {
		t.Errorf("the code is still good: %d %s", a.Status, a.Body)
	}
	g.Await("the files are gone", func() bool { return gone(issue) && gone(filepath.Join(cfg.Data, "setup.code")) })
}

// Five claims at once make one account.
func TestGateway_setup_race(t *testing.T) {
	g := gatewaytest.Run(t, gatewaytest.Configure(t))
	code := setupCode(t, g)
	var wait sync.WaitGroup
	statuses := make(chan int, 5)
	for i := range cap(statuses) {
		wait.Go(func() {
			statuses <- g.Do(http.MethodPost, setupPath, "", setupBody(code, fmt.Sprintf("a%d@example.test", i), "correct horse")).Status
		})
	}
	wait.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	accounts, err := g.Admin.Accounts(t.Context())
	if err != nil || len(accounts) != 1 || count[201] != 1 || count[404] != 4 {
		t.Errorf("answers %v and %d accounts, %v", count, len(accounts), err)
	}
}

func TestGateway_setup_guessing(t *testing.T) {
	g := gatewaytest.Run(t, gatewaytest.Configure(t))
	count, began := map[int]int{}, time.Now()
	for range 50 {
		a := g.Do(http.MethodPost, setupPath, "", setupBody("AAAA-AAAA", "a@example.test", "correct horse"))
		count[a.Status]++
		if a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") == "" {
			t.Error("nothing says when to come back")
		}
	}
	most := 5 + int(time.Since(began)/(12*time.Second)) // real time: a slow client has the more attempts
	if count[403] < 5 || count[403] > most || count[403]+count[429] != 50 {
		t.Errorf("answers %v", count)
	}
	if a := g.Do(http.MethodPost, setupPath, "", setupBody(setupCode(t, g), "a@example.test", "correct horse")); a.Status != http.StatusCreated {
		t.Errorf("the right code, while wrong ones are refused: %d", a.Status)
	}
}
