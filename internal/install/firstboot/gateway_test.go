package firstboot_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/config"
	"gatehouse/internal/install/firstboot"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi/client"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// With a real gateway: accounts log in with the passwords that were given and with
// those of the result, the hardware connects, and the settings hold after the restart.
func TestRun_realGateway(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	folder := t.TempDir()
	settings := filepath.Join(folder, "gatehouse.toml")
	text := fmt.Sprintf("data = %q\n[http]\nlisten = [\"127.0.0.1:0\"]\n[mqtt]\nlisten = [\"127.0.0.1:0\"]\n[login]\nhash_memory = \"7MiB\"\nhash_time = 1\n", cfg.Data)
	write(t, settings, text)
	start := func() *gatewaytest.Gateway {
		c, err := config.Load(settings, nil)
		if err != nil {
			t.Fatal(err)
		}
		return gatewaytest.Run(t, c)
	}
	g := start()
	write(t, filepath.Join(folder, "gatehouse-site.toml"), strings.Replace(siteText, "[::]:443", "127.0.0.1:0", 1))
	write(t, filepath.Join(folder, "guest.password"), guestPassword)
	out, err := firstboot.Run(t.Context(), firstboot.Config{
		Network: func() string { return "north-gate" }, Now: time.Now, Check: func(config.Config) error { return nil },
		Complaint: func(context.Context) string { return "" },
		Settings:  settings, Version: "test", Dial: func(socket string) firstboot.Gateway {
			c := client.New(socket)
			t.Cleanup(c.Close)
			return c
		},
		Restart: func(context.Context) (bool, error) {
			if err := g.Stop(); err != nil {
				return false, err
			}
			g = start()
			return true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := os.ReadFile(out.Result)
	if err != nil {
		t.Fatal(err)
	}
	_, owner, _ := strings.Cut(string(result), "Account owner@example.test\n    password       ")
	owner, _, _ = strings.Cut(owner, "\n")
	for email, password := range map[string]string{"porter@example.test": "given-porter-password", "guest@example.test": guestPassword, "owner@example.test": owner} {
		body := fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
		if a := g.Do(http.MethodPost, "/v1/auth/login", "", []byte(body)); a.Status != http.StatusOK {
			t.Errorf("%s logs in: %d %s\n%s", email, a.Status, a.Body, result)
		}
	}
	status, err := g.Admin.Status(t.Context())
	if err != nil || status.Name != "north-gate" || status.Certificate == nil || !strings.Contains(string(result), status.Certificate.AuthorityFingerprint) {
		t.Errorf("the gateway is called %q (%v), its certificate %+v\n%s", status.Name, err, status.Certificate, result)
	}
	records := g.Records()
	if n := len(slices.DeleteFunc(records, func(r site.Record) bool { return r.Kind != site.KindAccountAdded })); n != 3 {
		t.Errorf("%d accounts were made, want 3", n)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
