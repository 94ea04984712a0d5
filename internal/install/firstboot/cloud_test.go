package firstboot_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/install/firstboot"
)

const (
	cloudPassword = "given-password-of-the-broker"
	cloudText     = `[cloud]
url = "tls://mqtt.example.test:8883" # the old password was third-in-a-comment
username = "north-gate"
password = '` + cloudPassword + `'
keys = ["office 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="]
`
)

// watch has cfg note how files were written, by path.
func watch(cfg *firstboot.Config) map[string]firstboot.Touch {
	seen := map[string]firstboot.Touch{}
	cfg.OnTouch(func(touch firstboot.Touch) error {
		if touch.Mode != 0 {
			seen[touch.Path] = touch
		}
		return nil
	})
	return seen
}

// The cloud link of a site file is the gateway's, and its password is nowhere but in a
// file that others cannot read and the service can.
func TestRun_cloud(t *testing.T) {
	for name, c := range map[string]struct {
		mode fs.FileMode
		gid  int
	}{
		"as a service":    {0o640, os.Getgid()},
		"without service": {0o600, -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.write("boot/gatehouse-site.toml", strings.ReplaceAll(cloudText, "\n", "\r\n"))
			cfg := b.firstBoot()
			written := watch(&cfg)
			cfg.UseOwner(func(name string) (machine.Owner, bool) {
				return machine.Owner{GID: c.gid}, c.gid >= 0 && name == "gatehouse"
			})
			if out, err := firstboot.Run(t.Context(), cfg); err != nil || len(out.Warnings) > 0 {
				t.Fatalf("%+v, %v", out, err)
			}
			if got := b.config.Cloud; got.URL != "tls://mqtt.example.test:8883" || got.Username != "north-gate" || got.Password != cloudPassword || len(got.Keys) != 1 || b.boots != 2 {
				t.Errorf("the gateway runs with %+v, %q", got, got.Password.Reveal())
			}
			settings := b.path("etc/conf.d/50-site.toml")
			if info, err := os.Stat(settings); err != nil || info.Mode() != c.mode || written[settings].Group != c.gid {
				t.Errorf("the settings have the mode %v of group %d, %v", info.Mode(), written[settings].Group, err)
			}
			b.checkWiped(cloudPassword, "third-in-a-comment")
			if done := b.read("boot/gatehouse-site.done.toml"); !strings.Contains(done, "password = ''\nurl = 'tls://mqtt.example.test:8883'\nusername = 'north-gate'") {
				t.Errorf("the old site file reads\n%s", done)
			}
		})
	}
}

// checkWiped finds the secrets in no file but the settings.
func (b *board) checkWiped(secrets ...string) {
	b.t.Helper()
	for name, text := range b.files() {
		for _, secret := range secrets {
			if strings.Contains(text, secret) && name != "etc/conf.d/50-site.toml" {
				b.t.Errorf("%s holds %s:\n%s", name, secret, text)
			}
		}
	}
}

// A later site file without a password does not open the file that has one, also while
// it is on trial.
func TestRun_cloudThenAnother(t *testing.T) {
	b := newBoard(t)
	b.write("boot/gatehouse-site.toml", cloudText)
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	b.write("boot/gatehouse-site.toml", "[http]\nmetrics = true\n")
	cfg := b.firstBoot()
	written := watch(&cfg)
	if _, err := firstboot.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/conf.d/50-site.toml", "etc/first-boot.state"} {
		if got, is := written[b.path(name)]; !is || got.Mode&0o007 != 0 {
			t.Errorf("%s was written (%t) with the mode %v", name, is, got.Mode)
		}
	}
	if b.config.Cloud.Password != cloudPassword || !b.config.HTTP.Metrics {
		t.Errorf("the gateway runs with %+v", b.config)
	}
	b.checkWiped(cloudPassword)
}
