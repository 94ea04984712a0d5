package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/door/station"
)

// home is the environment of an ordinary user who set nothing.
func home() []string { return []string{"HOME=/home/porter", "LANG=C"} }

func TestParse_nothing(t *testing.T) {
	c, err := config.Parse("", nil, home())
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct{ name, got, want string }{
		{"data", c.Data, "/home/porter/.local/state/gatehouse"},
		{"socket", c.Admin.Socket, "/home/porter/.local/state/gatehouse/admin.sock"},
		{"http", strings.Join(c.HTTP.Listen, " "), "127.0.0.1:8080"},
		{"mqtt", strings.Join(c.MQTT.Listen, " "), "127.0.0.1:1883"},
		{"ttl", c.Unlock.TTL.String(), "5s"},
	} {
		if check.got != check.want {
			t.Errorf("%s is %q, want %q", check.name, check.got, check.want)
		}
	}
}

func TestDefaults_data(t *testing.T) {
	for _, test := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"home", home(), "/home/porter/.local/state/gatehouse"},
		{"state home", []string{"HOME=/home/porter", "XDG_STATE_HOME=/state"}, "/state/gatehouse"},
		{"relative state home", []string{"HOME=/home/porter", "XDG_STATE_HOME=state"}, "/home/porter/.local/state/gatehouse"},
		{"the last one counts", []string{"HOME=/a", "HOME=/b"}, "/b/.local/state/gatehouse"},
		{"neither", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := config.Defaults(test.environ).Data; got != test.want {
				t.Errorf("data is %q, want %q", got, test.want)
			}
		})
	}
}

// The annotated file is what the package installs: it says nothing but the
// defaults, but for what belongs to a system service.
func TestLoad_annotatedFile(t *testing.T) {
	want := config.Defaults(nil)
	want.Data = "/var/lib/gatehouse"
	want.Admin.Socket = "/run/gatehouse/admin.sock"
	// The ports that gatehouse.socket holds.
	want.HTTP.TLSListen = []string{"[::]:443"}
	want.MQTT.Listen = []string{"[::]:1883"}
	want.MQTT.TLSListen = []string{"[::]:8883"}
	want.Journal.HardSize = 512_000_000 // what 0 is with the default of max_size
	got, err := config.Load(annotated, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("configs/gatehouse.toml says\n%+v\nand the defaults are\n%+v", got, want)
	}
}

const annotated = "../../configs/gatehouse.toml"

func TestLoad_annotatedFileHasEveryKey(t *testing.T) {
	text, err := os.ReadFile(annotated)
	if err != nil {
		t.Fatal(err)
	}
	section, stated := "", make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]") + "."
		} else if name, _, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, "#") {
			stated[section+name] = true
		}
	}
	var c config.Config
	for _, k := range config.Keys(&c) {
		if !stated[k.Path] {
			t.Errorf("%s is missing", k.Path)
		}
		delete(stated, k.Path)
	}
	if len(stated) > 0 {
		t.Errorf("no such keys: %v", stated)
	}
}

// Every field of Config has exactly one key, named as the field is.
func TestKeys_coverConfig(t *testing.T) {
	var c config.Config
	byField := make(map[any]string)
	for _, k := range config.Keys(&c) {
		if other, twice := byField[k.Field]; twice {
			t.Errorf("%s and %s set the same field", k.Path, other)
		}
		byField[k.Field] = k.Path
	}
	eachField(reflect.ValueOf(&c).Elem(), "", func(path string, field any) {
		if byField[field] != path {
			t.Errorf("the field of %s has the key %q", path, byField[field])
		}
		delete(byField, field)
	})
	if len(byField) > 0 {
		t.Errorf("keys without a field: %v", byField)
	}
}

// eachField visits every setting of a configuration, by its path.
func eachField(v reflect.Value, prefix string, visit func(path string, field any)) {
	for i := range v.NumField() {
		path := prefix + snake(v.Type().Field(i).Name)
		if v.Type().Field(i).Anonymous {
			path = strings.TrimSuffix(prefix, ".")
		}
		if v.Field(i).Kind() == reflect.Struct {
			eachField(v.Field(i), path+".", visit)
			continue
		}
		visit(path, v.Field(i).Addr().Interface())
	}
}

// snake turns "TLSListen" into "tls_listen".
func snake(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		begins := i > 0 && unicode.IsUpper(r) &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Every key can be set in the environment, and wins over the file there.
func TestParse_environmentWins(t *testing.T) {
	text, err := os.ReadFile(annotated)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"GATEHOUSE_DATA": "/srv/gatehouse", "GATEHOUSE_DATA_COPY": "/mnt/stick", "GATEHOUSE_NAME": "north-gate", "GATEHOUSE_TIME_ZONE": "UTC",
		"GATEHOUSE_LOG_LEVEL": "debug", "GATEHOUSE_LOG_FORMAT": "json",
		"GATEHOUSE_TLS_CERTIFICATE": "/c.pem", "GATEHOUSE_TLS_KEY": "/k.pem",
		"GATEHOUSE_HTTP_LISTEN": "127.0.0.1:0, [::1]:80", "GATEHOUSE_HTTP_TLS_LISTEN": ":443", "GATEHOUSE_HTTP_METRICS": "true",
		"GATEHOUSE_HTTP_MAX_CONNECTIONS": "7", "GATEHOUSE_HTTP_MAX_CONNECTIONS_PER_ADDRESS": "6",
		"GATEHOUSE_MQTT_LISTEN": "", "GATEHOUSE_MQTT_TLS_LISTEN": "gate.example.test:8883",
		"GATEHOUSE_MQTT_MAX_CONNECTIONS": "9", "GATEHOUSE_MQTT_MAX_CONNECTIONS_PER_ADDRESS": "8",
		"GATEHOUSE_MQTT_PACKETS_PER_SECOND": "2.5", "GATEHOUSE_MQTT_CONNECT_TIMEOUT": "3s",
		"GATEHOUSE_MQTT_WRITE_TIMEOUT": "1500ms", "GATEHOUSE_MQTT_MAX_PACKET_SIZE": "4096",
		"GATEHOUSE_ADMIN_SOCKET": "/run/a.sock", "GATEHOUSE_ADMIN_GROUP": "porters",
		"GATEHOUSE_UNLOCK_ACCOUNT_RATE": "2.5", "GATEHOUSE_UNLOCK_ACCOUNT_BURST": "7", "GATEHOUSE_UNLOCK_ACCOUNT_PENDING": "3",
		"GATEHOUSE_UNLOCK_TTL": "9s", "GATEHOUSE_JOURNAL_MAX_AGE": "30d", "GATEHOUSE_JOURNAL_MAX_SIZE": "1GB",
		"GATEHOUSE_STATION_BATTERY_LOW": "11.5", "GATEHOUSE_STATION_SAVE_INTERVAL": "2m",
		"GATEHOUSE_ALARM_DOOR_FORCED": "0s", "GATEHOUSE_ALARM_DOOR_HELD": "1h", "GATEHOUSE_ALARM_LEFT_UNLOCKED": "7d",
		"GATEHOUSE_ALARM_STATION_SILENT": "1m", "GATEHOUSE_ALARM_REFUSED_OFTEN": "9",
		"GATEHOUSE_LOGIN_HASH_MEMORY": "19MiB", "GATEHOUSE_LOGIN_HASH_TIME": "3", "GATEHOUSE_LOGIN_PARALLEL_HASHES": "4",
		"GATEHOUSE_JOURNAL_HARD_SIZE": "3GB", "GATEHOUSE_CLOUD_URL": "mqtts://gate.example.test", "GATEHOUSE_CLOUD_CLIENT_ID": "gate-1",
		"GATEHOUSE_CLOUD_USERNAME": "north gate", "GATEHOUSE_CLOUD_PASSWORD": "s3cr3t", "GATEHOUSE_CLOUD_PASSWORD_FILE": "",
		"GATEHOUSE_CLOUD_CA": "/ca.pem", "GATEHOUSE_CLOUD_CERTIFICATE": "/gate.pem", "GATEHOUSE_CLOUD_KEY": "credential:gate.key",
		"GATEHOUSE_CLOUD_ACK": "broker", "GATEHOUSE_CLOUD_KEYS": keyA + ", " + keyB, "GATEHOUSE_CLOUD_KEEPALIVE": "2m",
		"GATEHOUSE_HOMEASSISTANT_URL": "tcp://house.example.test", "GATEHOUSE_HOMEASSISTANT_USERNAME": "gatehouse", "GATEHOUSE_HOMEASSISTANT_PASSWORD_FILE": "/p",
		"GATEHOUSE_HOMEASSISTANT_CA": "", "GATEHOUSE_HOMEASSISTANT_PREFIX": "ha", "GATEHOUSE_HOMEASSISTANT_PLAIN_UNLOCK": "true",
		"GATEHOUSE_UPDATE_FROM_CLOUD": "true", "GATEHOUSE_UPDATE_URL": "https://updates.example.test/gatehouse.update",
		"GATEHOUSE_CLOUD_RECORDS_PER_SECOND": "1000", "GATEHOUSE_CLOUD_WINDOW": "7",
		"GATEHOUSE_LOGIN_ACCOUNT_FAILURES": "5", "GATEHOUSE_LOGIN_ADDRESS_FAILURES": "20",
	}
	environ := []string{"GATEHOUSE_SOCKET=/x", "GATEHOUSE_PASSPHRASE=x", "GATEHOUSE_CONFIG=/x"}
	var none config.Config
	for _, k := range config.Keys(&none) {
		if _, ok := values[k.Variable]; !ok {
			t.Errorf("%s is not tried", k.Variable)
		}
		environ = append(environ, k.Variable+"="+values[k.Variable])
	}
	got, err := config.Parse("gatehouse.toml", text, environ)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Data: "/srv/gatehouse", DataCopy: "/mnt/stick", Name: "north-gate", TimeZone: "UTC",
		Log: config.Log{Level: "debug", Format: "json"},
		TLS: config.TLS{Certificate: "/c.pem", Key: "/k.pem"},
		HTTP: config.HTTP{
			Listen: []string{"127.0.0.1:0", "[::1]:80"}, TLSListen: []string{":443"}, Metrics: true,
			MaxConnections: 7, MaxConnectionsPerAddress: 6,
		},
		MQTT: config.MQTT{
			Listen: []string{}, TLSListen: []string{"gate.example.test:8883"}, MaxConnections: 9, MaxConnectionsPerAddress: 8,
			PacketsPerSecond: 2.5, ConnectTimeout: 3 * time.Second, WriteTimeout: 1500 * time.Millisecond, MaxPacketSize: 4096,
		},
		Admin:   config.Admin{Socket: "/run/a.sock", Group: "porters"},
		Unlock:  config.Unlock{TTL: 9 * time.Second, AccountRate: 2.5, AccountBurst: 7, AccountPending: 3},
		Journal: config.Journal{MaxAge: 720 * time.Hour, MaxSize: 1_000_000_000, HardSize: 3_000_000_000},
		Station: config.Station{BatteryLow: 11.5, SaveInterval: 2 * time.Minute},
		Alarm:   station.AlarmLimits{DoorHeld: time.Hour, LeftUnlocked: 7 * 24 * time.Hour, StationSilent: time.Minute, RefusedOften: 9},
		Login:   config.Login{HashMemory: 19 << 20, HashTime: 3, ParallelHashes: 4, AccountFailures: 5, AddressFailures: 20},
		Cloud: config.Cloud{
			Broker: mqttclient.Broker{
				URL: "mqtts://gate.example.test", ClientID: "gate-1", Username: "north gate", Password: "s3cr3t",
				CA: "/ca.pem", Certificate: "/gate.pem", Key: "credential:gate.key", Keepalive: 2 * time.Minute,
			},
			Ack: config.AckBroker, Keys: []string{keyA, keyB}, RecordsPerSecond: 1000, Window: 7,
		},
		Homeassistant: config.Homeassistant{URL: "tcp://house.example.test", Username: "gatehouse", PasswordFile: "/p", Prefix: "ha", PlainUnlock: true},
		Update:        config.Update{FromCloud: true, URL: "https://updates.example.test/gatehouse.update"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestLoad_whichFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, level string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte("[log]\nlevel = \""+level+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flag, variable := write("flag.toml", "debug"), write("variable.toml", "warn")
	for _, test := range []struct{ name, path, variable, want string }{
		{"the flag", flag, "", "debug"},
		{"the variable", "", variable, "warn"},
		{"the flag wins", flag, variable, "debug"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := config.Load(test.path, append(home(), "GATEHOUSE_CONFIG="+test.variable))
			if err != nil || c.Log.Level != test.want {
				t.Errorf("level %q, %v; want %q", c.Log.Level, err, test.want)
			}
		})
	}
}
