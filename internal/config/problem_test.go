package config_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/config"
	"gatehouse/internal/setup/tomlfile"
)

// problems parses and returns one line for each problem.
func problems(t *testing.T, text string, environ ...string) []string {
	t.Helper()
	_, err := config.Parse("f.toml", []byte(text), append(home(), environ...))
	if err == nil {
		return nil
	}
	all, ok := errors.AsType[*tomlfile.Error](err)
	if !ok {
		t.Fatalf("the error is no *tomlfile.Error: %v", err)
	}
	return strings.Split(all.Error(), "\n")
}

func TestParse_oneProblem(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"unknown key", "# first\n[http]\nlistn = []", `f.toml:3: unknown key "listn" in [http]: did you mean "listen"?`},
		{"unknown key at the top", "dta = \"x\"", `f.toml:1: unknown key "dta": did you mean "data"?`},
		{"unknown section", "\n\n[htp]\nlisten = []", `f.toml:3: unknown section [htp]: did you mean [http]?`},
		{"unknown dotted", "http.listn = []", `f.toml:1: unknown key "listn" in [http]: did you mean "listen"?`},
		{"unknown inline", "http = {metrics = true, listn = []}", `f.toml:1: unknown key "listn" in [http]: did you mean "listen"?`},
		{"key of another section", "[http]\nttl = \"5s\"", `f.toml:2: unknown key "ttl" in [http]: it belongs to [unlock]`},
		{"key of the top in a section", "[http]\ntime_zone = \"\"", `f.toml:2: unknown key "time_zone" in [http]: write it at the top of the file, before the first [section]`},
		{"unlike anything", "[http]\nquux_quux_quux = 1", `f.toml:2: unknown key "quux_quux_quux" in [http]: remove it`},
		{"quoted dotted key", "\"log.level\" = \"info\"", `f.toml:1: unknown key "log.level": remove it`},
		{"case", "[http]\nListen = []", `f.toml:2: unknown key "Listen" in [http]: did you mean "listen"?`},
		{"after a text of many lines", "data = '''\n/x\n[http]\nlistn = 1\n'''\n[unlock]\ntl = 1", `f.toml:7: unknown key "tl" in [unlock]: did you mean "ttl"?`},
		{"unknown section without a line", "data = \"/x\"\nhtp.listen.x = 1", `f.toml:2: unknown section [htp]: did you mean [http]?`},
		{"section as value", "\nmqtt.listen.x = 1", `f.toml:2: mqtt.listen: it is not a list of texts: write it like ["a", "b"], or [] for none`},
		{"section as key", "http = 3", `f.toml:1: http is a section: write [http] on a line of its own, once`},
		{"section as list", "[[http]]\nmetrics = true", `f.toml:1: http is a section: write [http] on a line of its own, once`},
		{"key as section", "[data]\nx = 1", `f.toml:1: unknown section [data]: remove it, or name one of log, tls, http, mqtt, admin, unlock, journal, station, alarm, login, cloud`},
		{"not TOML", "[http]\nlisten = [\"a\"\nmetrics = true", `f.toml:3: not valid TOML: expected ',' or ']' after array value`},
		{"twice", "data = \"/x\"\ndata = \"/y\"", `f.toml:2: `},
		{"text for list", "[mqtt]\nlisten = \":1883\"", `f.toml:2: mqtt.listen: it is not a list of texts: write it like ["a", "b"], or [] for none`},
		{"text for keys", "[cloud]\nkeys = \"x\"", `f.toml:2: cloud.keys: it is not a list of texts: write it like ["a", "b"], or [] for none`},
		{"no folder", "data = \"\"", `f.toml:1: data: there is no folder to keep the data in: name one as data, or as GATEHOUSE_DATA`},
		{"other spelling", "timezone = \"UTC\"", `f.toml:1: unknown key "timezone": did you mean "time_zone"?`},
		{"number in list", "[mqtt]\nlisten = [\n  \":1883\",\n  7,\n]", `f.toml:2: mqtt.listen: it is not a list of texts: write it like ["a", "b"], or [] for none`},
		{"number for text", "data = 7", `f.toml:1: data: it is not a text: put it in quotes`},
		{"text for bool", "[http]\nmetrics = \"yes\"", `f.toml:2: http.metrics: it is a text: write it without quotes`},
		{"text for int", "[http]\nmax_connections = \"7\"", `f.toml:2: http.max_connections: it is a text: write it without quotes`},
		{"float for int", "[http]\nmax_connections = 7.5", `f.toml:2: http.max_connections: "7.5" is not a whole number, or far too large a one`},
		{"large int", "[http]\nmax_connections = 4294967297", `f.toml:2: http.max_connections: "4294967297" is not a whole number, or far too large a one`},
		{"text for float", "[station]\nbattery_low = \"3\"", `f.toml:2: station.battery_low: it is a text: write it without quotes`},
		{"not a number", "[station]\nbattery_low = nan", `f.toml:2: station.battery_low: NaN is out of range: 0 to 60`},
		{"endless", "[mqtt]\npackets_per_second = inf", `f.toml:2: mqtt.packets_per_second: +Inf is out of range: 1 to 10000`},
		{"number for duration", "[unlock]\nttl = 5", `f.toml:2: unlock.ttl: "5" is not a duration: write it like "5s", "10m" or "365d"`},
		{"no duration", "[unlock]\nttl = \"5 seconds\"", `f.toml:2: unlock.ttl: "5 seconds" is not a duration: write it like "5s", "10m" or "365d"`},
		{"long ttl", "[unlock]\nttl = \"61s\"", `f.toml:2: unlock.ttl: 1m1s is out of range: 1s to 1m0s`},
		{"short ttl", "[unlock]\nttl = \"0s\"", `f.toml:2: unlock.ttl: 0s is out of range: 1s to 1m0s`},
		{"part of a second", "[unlock]\nttl = \"1500ms\"", `f.toml:2: unlock.ttl: 1.5s is not a whole number of seconds`},
		{"short age", "[journal]\nmax_age = \"5m\"", `f.toml:2: journal.max_age: 5m0s is out of range: 1h0m0s to 876000h0m0s`},
		{"number for size", "[journal]\nmax_size = 256", `f.toml:2: journal.max_size: "256" is not a size: write it like "256MB" or "19MiB"`},
		{"no size", "[journal]\nmax_size = \"256 apples\"", `f.toml:2: journal.max_size: "256 apples" is not a size: write it like "256MB" or "19MiB"`},
		{"small size", "[journal]\nmax_size = \"1kB\"", `f.toml:2: journal.max_size: 1kB is out of range: 1MB to 1000GB`},
		{"little memory", "[login]\nhash_memory = \"1MiB\"", `f.toml:2: login.hash_memory: 1MiB is out of range: 7MiB to 1GiB, or 0`},
		{"level", "[log]\nlevel = \"loud\"", `f.toml:2: log.level: "loud" is none of debug, info, warn, error`},
		{"time zone", "time_zone = \"Mars/North\"", `f.toml:1: time_zone: "Mars/North" is not a time zone that this system knows: write it like "Europe/Berlin"`},
		{"address", "[http]\nlisten = [\"8080\"]", `f.toml:2: http.listen: "8080" is not an address to listen on: write it like "127.0.0.1:8080", or "0.0.0.0:8080" for every IPv4 network`},
		{"port", "[http]\nlisten = [\"127.0.0.1:65536\"]", `f.toml:2: http.listen: "127.0.0.1:65536" is not an address`},
		{"host", "[http]\nlisten = [\"127.0.0.300:80\"]", `f.toml:2: http.listen: "127.0.0.300:80" is not an address`},
		{"name with a dot", "name = \"gate.example\"", `f.toml:1: name: "gate.example" cannot be a host name: write up to 63 letters, digits and hyphens, like "north-gate"`},
		{"name with a hyphen first", "name = \"-gate\"", `f.toml:1: name: "-gate" cannot be a host name`},
		{"long name", "name = \"" + strings.Repeat("x", 64) + "\"", `f.toml:1: name: "xxx`},
		{"nothing for stations", "[mqtt]\nlisten = []\ntls_listen = []", `f.toml:2: mqtt.listen: stations can reach the gateway nowhere: name an address in listen or tls_listen of [mqtt]`},
		{"certificate without key", "[tls]\ncertificate = \"/c\"", `f.toml:2: tls.certificate: a certificate needs its key: set key in [tls]`},
		{"key without certificate", "[tls]\nkey = \"/k\"", `f.toml:2: tls.key: a key needs its certificate: set certificate in [tls]`},
		{"share above the whole", "[http]\nmax_connections = 10\nmax_connections_per_address = 11", `f.toml:3: http.max_connections_per_address: max_connections_per_address is 11, and max_connections only 10`},
		{"share by default", "[http]\nmax_connections = 10", `f.toml:2: http.max_connections: max_connections_per_address is 256, and max_connections only 10`},
		{"long socket path", "[admin]\nsocket = \"/" + strings.Repeat("x", 107) + "\"", `f.toml:2: admin.socket: the path "/xxx`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := problems(t, test.text)
			if len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestParse_everyProblemAtOnce(t *testing.T) {
	got := problems(t, "[log]\nlevel = 7\nlevl = 7\n[unlock]\nttl = \"2h\"\n",
		"GATEHOUSE_HTTP_LISTN=x", "GATEHOUSE_HTTP_METRICS=maybe", "GATEHOUSE_CLOUD_QUUXES=x",
		"GATEHOUSE_MQTT_MAX_PACKET_SIZE=1", "GATEHOUSE_HTTP_TLS_LISTEN=443")
	want := []string{
		`f.toml:2: log.level: it is not a text: put it in quotes`,
		`f.toml:3: unknown key "levl" in [log]: did you mean "level"?`,
		`f.toml:5: unlock.ttl: 2h0m0s is out of range: 1s to 1m0s`,
		`GATEHOUSE_HTTP_LISTN: unknown variable: did you mean GATEHOUSE_HTTP_LISTEN?`,
		`GATEHOUSE_HTTP_METRICS: http.metrics: "maybe" is neither true nor false`,
		`GATEHOUSE_HTTP_TLS_LISTEN: http.tls_listen: "443" is not an address to listen on: write it like "127.0.0.1:8080", or "0.0.0.0:8080" for every IPv4 network`,
		`GATEHOUSE_MQTT_MAX_PACKET_SIZE: mqtt.max_packet_size: 1 is out of range: 1024 to 65536`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A variable that is like no setting belongs to another program; a typo does not.
func TestForeign(t *testing.T) {
	environ := []string{"GATEHOUSE_BIN=/x", "PATH=/y", "GATEHOUSE_DATA=/z", "GATEHOUSE_SOCKET=/s", "GATEHOUSE_TEST_URL", "GATEHOUSE_LOG_LEVL=x", "GATEHOUSE_CLOUD=x", "GATEHOUSE_DATA_DIR=x", "GATEHOUSE_TIME_ZONE_NAME=x"}
	if got := config.Foreign(environ); strings.Join(got, " ") != "GATEHOUSE_BIN GATEHOUSE_TEST_URL GATEHOUSE_CLOUD GATEHOUSE_DATA_DIR GATEHOUSE_TIME_ZONE_NAME" {
		t.Errorf("%q", got)
	}
	got := problems(t, "", environ...)
	names := make([]string, len(got))
	for i, problem := range got {
		names[i], _, _ = strings.Cut(problem, ":")
	}
	if strings.Join(names, " ") != "GATEHOUSE_LOG_LEVL" {
		t.Errorf("%q", got)
	}
}

// What the environment sets right need not be right in the file.
func TestParse_environmentRepairs(t *testing.T) {
	if got := problems(t, "[unlock]\nttl = \"2h\"\n", "GATEHOUSE_UNLOCK_TTL=5s"); got != nil {
		t.Errorf("refused: %q", got)
	}
}

func TestParse_noHome(t *testing.T) {
	_, err := config.Parse("", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "data: there is no folder to keep the data in: name one as data, or as GATEHOUSE_DATA") {
		t.Errorf("without a home: %v", err)
	}
}

func TestParse_manyUnknownKeys(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		text.WriteString("z" + strings.Repeat("y", i%7) + strings.Repeat("x", i) + " = 1\n")
	}
	if got := problems(t, text.String()); len(got) != 21 || got[20] != "f.toml: 980 more problems are not shown" {
		t.Errorf("%d problems are reported: %s", len(got), got[len(got)-1])
	}
}

func TestLoad_missingFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.toml")
	for name, load := range map[string]func() error{
		"flag":     func() error { _, err := config.Load(missing, home()); return err },
		"variable": func() error { _, err := config.Load("", append(home(), "GATEHOUSE_CONFIG="+missing)); return err },
	} {
		if err := load(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("by the %s: %v", name, err)
		}
	}
}

func TestLoad_notAConfiguration(t *testing.T) {
	for path, want := range map[string]string{t.TempDir(): "is a directory", "/dev/zero": "is larger than 65536 bytes"} {
		if _, err := config.Load(path, home()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]config.Bytes{
		"0": 0, "0B": 0, "7B": 7, "1kB": 1000, "256MB": 256_000_000, "256 MB": 256_000_000, "19MiB": 19 << 20, "1GiB": 1 << 30,
	} {
		got, err := config.ParseBytes(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
		if again, err := config.ParseBytes(got.String()); err != nil || again != got {
			t.Errorf("%s of %q is read as %d, %v", got, text, again, err)
		}
	}
	for _, text := range []string{"", "B", "MB", "-1MB", "1.5MB", "1", "1TB", "9223372036854775807GB", "1MBMB", "+1B"} {
		if got, err := config.ParseBytes(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}
