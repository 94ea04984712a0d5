package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/config"
	"gatehouse/internal/setup/tomlfile"
)

// tree writes files below a temporary folder and returns the folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// The parts are laid over the file in the order of their names, and the environment
// over all; what is no part is not read.
func TestLoad_parts(t *testing.T) {
	folder := tree(t, map[string]string{
		"gatehouse.toml":           "name = \"of-the-file\"\n[log]\nlevel = \"debug\"\nformat = \"json\"\n[unlock]\nttl = \"7s\"\n",
		"conf.d/50-site.toml":      "name = \"of-fifty\"\n[log]\nlevel = \"warn\"\n",
		"conf.d/70-ours.toml":      "[log]\nlevel = \"error\"\n",
		"conf.d/9-late.toml":       "[station]\nbattery_low = 1.5\n",
		"conf.d/99-old.toml~":      "name = \"of-an-editor\"",
		"conf.d/50-site.toml.bak":  "name = \"of-a-copy\"",
		"conf.d/.99-hidden.toml":   "name = \"hidden\"",
		"conf.d/README":            "not TOML",
		"conf.d/deeper/99-no.toml": "name = \"too-deep\"",
	})
	c, err := config.Load(filepath.Join(folder, "gatehouse.toml"), append(home(), "GATEHOUSE_STATION_BATTERY_LOW=2.5"))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Name, " ", c.Log, " ", c.Unlock.TTL, " ", c.Station.BatteryLow)
	if want := "of-fifty {error json} 7s 2.5"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

// A problem names the file and the line that it is about.
func TestLoad_problemsInParts(t *testing.T) {
	folder := tree(t, map[string]string{
		"gatehouse.toml":    "[log]\nlevel = \"loud\"\n[mqtt]\nlisten = [\"127.0.0.1:80\"]\n[unlock]\nttl = 5\n",
		"conf.d/10-a.toml":  "\n[log]\nlevl = \"debug\"\n",
		"conf.d/20-b.toml":  "[http]\nlisten = [\"127.0.0.1:81\"\n",
		"conf.d/30-c.toml":  "[log]\nlevel = \"debug\"\n",
		"conf.d/40-d.toml":  "[http]\n\nlisten = [\"127.0.0.1:80\"]\n[unlock]\nttl = \"2h\"\n",
		"conf.d/50-ok.toml": "",
	})
	_, err := config.Load(filepath.Join(folder, "gatehouse.toml"), append(home(), "GATEHOUSE_LOG_FORMAT=xml"))
	all, ok := errors.AsType[*tomlfile.Error](err)
	if !ok {
		t.Fatalf("no problems in %v", err)
	}
	var got []string
	for _, p := range all.Problems {
		where, _, _ := strings.Cut(strings.TrimPrefix(p.String(), folder+"/"), ": ")
		got = append(got, where)
	}
	want := []string{
		"gatehouse.toml:6", "conf.d/10-a.toml:3", "conf.d/20-b.toml:2", "GATEHOUSE_LOG_FORMAT", "conf.d/40-d.toml:5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems at %q, want %q\n%v", got, want, err)
	}
}

func TestFiles_bounds(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"large file": {map[string]string{"conf.d/a.toml": strings.Repeat("#", 64<<10+1)}, "conf.d/a.toml is larger than 65536 bytes"},
		"folder":     {map[string]string{"conf.d/a.toml/b.toml": ""}, "conf.d/a.toml: is a directory"},
		"no folder":  {map[string]string{"conf.d": ""}, "conf.d: not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := tree(t, c.files)
			_, err := config.FilesOr(filepath.Join(folder, "gatehouse.toml"), "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Without the system's file, the parts beside it are read all the same.
func TestFiles_withoutTheFile(t *testing.T) {
	folder := tree(t, map[string]string{"conf.d/50-site.toml": "name = \"gate\""})
	files, err := config.FilesOr(filepath.Join(folder, "gatehouse.toml"), "")
	if err != nil || len(files) != 1 || files[0].Name != filepath.Join(folder, "conf.d", "50-site.toml") {
		t.Errorf("read %v, %v", files, err)
	}
	if files, err := config.FilesOr(filepath.Join(t.TempDir(), "gatehouse.toml"), ""); err != nil || files != nil {
		t.Errorf("where there is nothing: %v, %v", files, err)
	}
}

func TestMainFile(t *testing.T) {
	for _, c := range []struct{ path, variable, want string }{
		{"", "", "/etc/gatehouse/gatehouse.toml"},
		{"", "/a/g.toml", "/a/g.toml"},
		{"/b/g.toml", "/a/g.toml", "/b/g.toml"},
	} {
		if got := config.MainFile(c.path, []string{"GATEHOUSE_CONFIG=" + c.variable}); got != c.want {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// Of a file that holds more than settings, only the named tops are read; where each
// key was set can be asked.
func TestLay_only(t *testing.T) {
	const text = "timezone = \"UTC\"\nname = \"gate\"\n[[station]]\nid = 1\n[http]\nmetrics = true\n[nobodys]\nx = 1\n"
	files := []config.File{
		{Name: "a.toml", Text: []byte("[log]\nlevel = \"debug\"\n")},
		{Name: "site.toml", Text: []byte(text), Only: []string{"name", "http", "log"}},
	}
	c, sources, err := config.Lay(files, append(home(), "GATEHOUSE_LOG_FORMAT=json"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "gate" || !c.HTTP.Metrics || c.Log.Level != "debug" {
		t.Errorf("read %+v", c)
	}
	want := config.Sources{
		"name": {File: "site.toml", Line: 2}, "http.metrics": {File: "site.toml", Line: 6}, "log.level": {File: "a.toml", Line: 2},
		"log.format": {File: "GATEHOUSE_LOG_FORMAT"},
	}
	if !reflect.DeepEqual(sources, want) {
		t.Errorf("set in %v, want %v", sources, want)
	}
	files[1].Only = nil
	if _, _, err := config.Lay(files, home()); err == nil || !strings.Contains(err.Error(), "site.toml:7: unknown section [nobodys]") {
		t.Errorf("without the bound: %v", err)
	}
}

// A key whose name says so holds a secret, and its value is never shown.
func TestKey_secret(t *testing.T) {
	for path, want := range map[string]bool{
		"cloud.password": true, "cloud.client_secret": true, "token": true, "tls.key": false, "http.listen": false, "login.password_length": false,
	} {
		if config.SecretKey(path) != want {
			t.Errorf("%s: want %t", path, want)
		}
		err := config.SecretWords(path, errors.New("s3cr3t is not a text"))
		if strings.Contains(err.Error(), "s3cr3t") == want {
			t.Errorf("%s: %v", path, err)
		}
	}
	var c config.Config
	for _, k := range config.Keys(&c) {
		if config.SecretKey(k.Path) && k.Path != "cloud.password" {
			t.Errorf("%s would be written to files that only the gateway may read: is it meant so?", k.Path)
		}
	}
}

func TestNames(t *testing.T) {
	want := []string{"data", "data_copy", "name", "time_zone"}
	if got := config.Names(); !slices.Equal(got[:4], want) || !slices.Contains(got, "login") || !slices.Contains(got, "station") {
		t.Errorf("got %v", got)
	}
}

func TestConfig_HostName(t *testing.T) {
	if got := (config.Config{Name: "North-Gate"}).HostName(); got != "north-gate" {
		t.Errorf("got %q", got)
	}
	if got := (config.Config{}).HostName(); got == "" || strings.Contains(got, ".") {
		t.Errorf("the system's name reads %q", got)
	}
}
