package firstboot_test

import (
	"io/fs"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"

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

// watchedDisk notes how files were written.
type watchedDisk struct {
	firstboot.Disk
	modes  map[string]fs.FileMode // by path
	groups map[string]int
}

func (d *watchedDisk) Write(path string, data []byte, mode fs.FileMode, group int) error {
	d.modes[path], d.groups[path] = mode, group
	return d.Disk.Write(path, data, mode, group)
}

// The cloud link of a site file is the gateway's, and its password is nowhere but in a
// file that others cannot read and the service can.
func TestRun_cloud(t *testing.T) {
	for name, c := range map[string]struct {
		group *user.Group
		mode  fs.FileMode
		gid   int
	}{
		"as a service":    {&user.Group{Gid: strconv.Itoa(os.Getgid())}, 0o640, os.Getgid()},
		"without service": {nil, 0o600, -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.write("boot/gatehouse-site.toml", strings.ReplaceAll(cloudText, "\n", "\r\n"))
			cfg := b.firstBoot()
			disk := &watchedDisk{Disk: firstboot.RealDisk{}, modes: map[string]fs.FileMode{}, groups: map[string]int{}}
			cfg.UseDisk(disk)
			cfg.UseGroup(func(name string) (*user.Group, error) {
				if c.group == nil || name != "gatehouse" {
					return nil, user.UnknownGroupError(name)
				}
				return c.group, nil
			})
			if out, err := firstboot.Run(t.Context(), cfg); err != nil || len(out.Warnings) > 0 {
				t.Fatalf("%+v, %v", out, err)
			}
			if got := b.config.Cloud; got.URL != "tls://mqtt.example.test:8883" || got.Username != "north-gate" || got.Password != cloudPassword || len(got.Keys) != 1 || b.boots != 2 {
				t.Errorf("the gateway runs with %+v, %q", got, got.Password.Reveal())
			}
			settings := b.path("etc/conf.d/50-site.toml")
			if info, err := os.Stat(settings); err != nil || info.Mode() != c.mode || disk.modes[settings] != c.mode || disk.groups[settings] != c.gid {
				t.Errorf("the settings have the mode %v of group %d, %v", info.Mode(), disk.groups[settings], err)
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
	disk := &watchedDisk{Disk: firstboot.RealDisk{}, modes: map[string]fs.FileMode{}, groups: map[string]int{}}
	cfg := b.firstBoot()
	cfg.UseDisk(disk)
	if _, err := firstboot.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{b.path("etc/conf.d/50-site.toml"), b.path("etc/conf.d/.50-site.before")} {
		if mode, written := disk.modes[path]; !written || mode&0o007 != 0 {
			t.Errorf("%s was written (%t) with the mode %v", path, written, mode)
		}
	}
	if b.config.Cloud.Password != cloudPassword || !b.config.HTTP.Metrics {
		t.Errorf("the gateway runs with %+v", b.config)
	}
	b.checkWiped(cloudPassword)
}

// Files that the cloud link needs are found where the gateway will look for them.
func TestRun_cloudFiles(t *testing.T) {
	b := newBoard(t)
	cert, key := certificate(t)
	b.write("etc/credentials/gate.crt", cert)
	b.write("etc/credentials/gate.key", key)
	b.write("etc/credentials/cloud.password", "given-password\n")
	b.write("etc/ca.pem", cert)
	b.write("boot/gatehouse-site.toml", "[cloud]\nurl = \"tls://mqtt.example.test\"\nusername = \"u\"\npassword_file = \"credential:cloud.password\"\n"+
		"ca = \""+b.path("etc/ca.pem")+"\"\ncertificate = \"credential:gate.crt\"\nkey = \"credential:gate.key\"\n")
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	if b.config.Cloud.CA != b.path("etc/ca.pem") || !b.exists("etc/credentials/cloud.password") {
		t.Errorf("the gateway runs with %+v; there are %q", b.config.Cloud, slices.Sorted(maps.Keys(b.files())))
	}
}
