package config_test

import (
	"fmt"
	"strings"
	"testing"

	"gatehouse/internal/config"
)

// Public keys of RFC 8032, 7.1.
const (
	keyA = "office 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	keyB = "spare PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="
)

func TestParse_brokerURL(t *testing.T) {
	for _, url := range []string{
		"", "tls://mqtt.example.test:8883", "ssl://192.0.2.1", "mqtts://[2001:db8::1]:8883", "tcp://localhost:1883", "mqtt://localhost/", "TLS://mqtt.example.test",
	} {
		if got := problems(t, "[cloud]\nurl = \""+url+"\""); got != nil {
			t.Errorf("%s is refused: %q", url, got)
		}
	}
	for _, url := range []string{"mqtt.example.test:8883", "mqtt.example.test", "https://mqtt.example.test", "tls://", "tls://h:0", "tls://h/topic", "wss://h", "tls://%zz"} {
		got := problems(t, "[cloud]\nurl = \""+url+"\"")
		if len(got) != 1 || !strings.HasPrefix(got[0], "f.toml:2: cloud.url: ") || !strings.Contains(got[0], "tls://HOST:PORT") && !strings.Contains(got[0], "port") && !strings.Contains(got[0], "tls:// (or") {
			t.Errorf("%s: %q", url, got)
		}
	}
}

func TestParse_cloud(t *testing.T) {
	const certificate = "\ncertificate = \"/c\"\nkey = \"/k\""
	for _, test := range []struct{ name, text, want string }{
		{"only what is needed", `url = "tls://h"`, ""},
		{"certificate", "url = \"tls://h\"\nca = \"/ca\"" + certificate, ""},
		{"switched off", "username = \"u\"\npassword = \"p\"\nca = \"/ca\"" + certificate, ""},
		{"certificate without key", `certificate = "/c"`, `f.toml:2: cloud.certificate: a certificate needs its key: set key in [cloud]`},
		{"key without certificate", `key = "/k"`, `f.toml:2: cloud.key: a key needs its certificate: set certificate in [cloud]`},
		{"authority without TLS", "url = \"tcp://h\"\nca = \"/ca\"", `f.toml:3: cloud.ca: ca is not used without TLS: write the url with tls://, or leave it out`},
		{"certificate without TLS", "url = \"MQTT://h\"" + certificate, `f.toml:3: cloud.certificate: certificate is not used without TLS: write the url with tls://, or leave it out`},
		{"two passwords", "username = \"u\"\npassword = \"s3cr3t\"\npassword_file = \"/p\"", `f.toml:4: cloud.password_file: password and password_file are both set: keep one of the two`},
		{"password of nobody", `password = "s3cr3t"`, `f.toml:2: cloud.password: a password needs a user name: set username in [cloud]`},
		{"password file of nobody", `password_file = "/p"`, `f.toml:2: cloud.password_file: a password needs a user name: set username in [cloud]`},
		{"number as password", "username = \"u\"\npassword = 1234567", `f.toml:3: cloud.password: the value cannot be read: write it as a text in quotes`},
		{"ack", `ack = "nobody"`, `f.toml:2: cloud.ack: "nobody" is none of application, broker`},
		{"client id", `client_id = "a\u0000b"`, `f.toml:2: cloud.client_id: "a\x00b" cannot be used: write a text of one line, up to 512 bytes`},
		{"user name", `username = "` + strings.Repeat("x", 513) + `"`, `f.toml:2: cloud.username: "` + strings.Repeat("x", 120) + `…" cannot be used: write a text of one line, up to 512 bytes`},
		{"short keepalive", `keepalive = "9s"`, `f.toml:2: cloud.keepalive: 9s is out of range: 10s to 10m0s`},
		{"part of a second", `keepalive = "10500ms"`, `f.toml:2: cloud.keepalive: 10.5s is not a whole number of seconds`},
		{"no key", `keys = ["office"]`, `f.toml:2: cloud.keys: key 1 of 1: a key is written as its id, a space and the base64 of its public half, as "gatehouse cloud keygen" prints it`},
		{"key twice", `keys = ["` + keyA + `", "` + keyA + `"]`, `f.toml:2: cloud.keys: key 2 of 2: there is another with the id office: name each differently`},
		{"keys", `keys = ["` + keyA + `", "` + keyB + `"]`, ""},
		{"no records", `records_per_second = 0`, `f.toml:2: cloud.records_per_second: 0 is out of range: 1 to 10000`},
		{"wide window", `window = 1001`, `f.toml:2: cloud.window: 1001 is out of range: 1 to 1000`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(problems(t, "[cloud]\n"+test.text), "\n"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// No problem shows what may be a password, wherever it is written.
func TestParse_cloudSecrets(t *testing.T) {
	for _, text := range []string{
		`url = "tls://north-gate:s3cr3t@mqtt.example.test"`, `url = "north-gate:s3cr3t@mqtt.example.test:8883"`, `url = "tls://s3cr3t@%zz"`,
		`url = "wss://mqtt.example.test/mqtt?token=s3cr3t"`, `password = ["s3cr3t"]`, `password = {s3cr3t = 1}`, `password = "s3cr3t"`,
	} {
		got := problems(t, "[cloud]\n"+text)
		if len(got) != 1 || strings.Contains(got[0], "s3cr3t") || !strings.HasPrefix(got[0], "f.toml:2: cloud.") {
			t.Errorf("%s: %q", text, got)
		}
	}
	c, err := config.Parse("f.toml", []byte("[cloud]\nusername = \"north-gate\"\npassword = \"s3cr3t\"\n"), home())
	if printed := fmt.Sprintf("%+v %#v", c, c); err != nil || strings.Contains(printed, "s3cr3t") || c.Cloud.Password.Reveal() != "s3cr3t" {
		t.Errorf("%v: %s", err, printed)
	}
}

// The hard limit follows a larger journal, so that no configuration without it becomes
// wrong.
func TestJournal_HardLimit(t *testing.T) {
	for text, want := range map[string]config.Bytes{
		"": 512_000_000, "max_size = \"4GB\"": 8_000_000_000, "max_size = \"4GB\"\nhard_size = \"4GB\"": 4_000_000_000, "hard_size = \"1GB\"": 1_000_000_000,
	} {
		c, err := config.Parse("f.toml", []byte("[journal]\n"+text), home())
		if err != nil || c.Journal.HardSize != want {
			t.Errorf("%q: %s, %v; want %s", text, c.Journal.HardSize, err, want)
		}
	}
	got := problems(t, "[journal]\nmax_size = \"4GB\"\nhard_size = \"3GB\"")
	if want := "f.toml:3: journal.hard_size: hard_size is 3GB, less than max_size, which is 4GB: set a larger one, or 0"; len(got) != 1 || got[0] != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
