package config

import (
	"errors"
	"reflect"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// key is one setting: where its value lies in a Config and which values are
// right.
type key struct {
	path   string            // as in the file: "mqtt.tls_listen", or "data" outside any section
	field  func(*Config) any // points to its field
	check  check
	reload bool // whether a changed value takes effect at a reload: atReload, else atRestart
}

const atRestart, atReload = false, true

// keys is the table of every setting, in the order of the annotated file.
func keys() []key {
	return append([]key{
		{"data", func(c *Config) any { return &c.Data }, directory, atRestart},
		{"data_copy", func(c *Config) any { return &c.DataCopy }, anything, atRestart},
		{"name", func(c *Config) any { return &c.Name }, hostLabel, atRestart},
		{"time_zone", func(c *Config) any { return &c.TimeZone }, timeZone, atReload},
		{"log.level", func(c *Config) any { return &c.Log.Level }, oneOf("debug", "info", "warn", "error"), atReload},
		{"log.format", func(c *Config) any { return &c.Log.Format }, oneOf("text", "json"), atRestart},
		{"tls.certificate", func(c *Config) any { return &c.TLS.Certificate }, anything, atReload},
		{"tls.key", func(c *Config) any { return &c.TLS.Key }, anything, atReload},
		{"http.listen", func(c *Config) any { return &c.HTTP.Listen }, addresses, atRestart},
		{"http.tls_listen", func(c *Config) any { return &c.HTTP.TLSListen }, addresses, atRestart},
		{"http.metrics", func(c *Config) any { return &c.HTTP.Metrics }, anything, atRestart},
		{"http.max_connections", func(c *Config) any { return &c.HTTP.MaxConnections }, between(1, maxConnections), atRestart},
		{"http.max_connections_per_address", func(c *Config) any { return &c.HTTP.MaxConnectionsPerAddress }, between(1, maxConnections), atRestart},
		{"mqtt.listen", func(c *Config) any { return &c.MQTT.Listen }, addresses, atRestart},
		{"mqtt.tls_listen", func(c *Config) any { return &c.MQTT.TLSListen }, addresses, atRestart},
		{"mqtt.max_connections", func(c *Config) any { return &c.MQTT.MaxConnections }, between(1, maxConnections), atRestart},
		{"mqtt.max_connections_per_address", func(c *Config) any { return &c.MQTT.MaxConnectionsPerAddress }, between(1, maxConnections), atRestart},
		{"mqtt.packets_per_second", func(c *Config) any { return &c.MQTT.PacketsPerSecond }, between(1.0, 10_000), atRestart},
		{"mqtt.connect_timeout", func(c *Config) any { return &c.MQTT.ConnectTimeout }, between(time.Second, time.Minute), atRestart},
		{"mqtt.write_timeout", func(c *Config) any { return &c.MQTT.WriteTimeout }, between(100*time.Millisecond, time.Minute), atRestart},
		{"mqtt.max_packet_size", func(c *Config) any { return &c.MQTT.MaxPacketSize }, between(1024, 65536), atRestart},
		{"admin.socket", func(c *Config) any { return &c.Admin.Socket }, anything, atRestart},
		{"admin.group", func(c *Config) any { return &c.Admin.Group }, anything, atRestart},
		{"unlock.ttl", func(c *Config) any { return &c.Unlock.TTL }, wholeSeconds(between(time.Second, time.Minute)), atReload},
		{"unlock.account_rate", func(c *Config) any { return &c.Unlock.AccountRate }, zeroOr(between(0.001, 10_000)), atReload},
		{"unlock.account_burst", func(c *Config) any { return &c.Unlock.AccountBurst }, between(0, 100_000), atReload},
		{"unlock.account_pending", func(c *Config) any { return &c.Unlock.AccountPending }, between(0, 1000), atReload},
		{"journal.max_age", func(c *Config) any { return &c.Journal.MaxAge }, between(time.Hour, 100*365*day), atReload},
		{"journal.max_size", func(c *Config) any { return &c.Journal.MaxSize }, between(megabyte, 1000*1000*megabyte), atReload},
		{"journal.hard_size", func(c *Config) any { return &c.Journal.HardSize }, zeroOr(between(megabyte, 2*1000*1000*megabyte)), atReload},
		{"station.battery_low", func(c *Config) any { return &c.Station.BatteryLow }, between(0.0, 60), atRestart},
		{"station.save_interval", func(c *Config) any { return &c.Station.SaveInterval }, between(time.Second, time.Hour), atRestart},
		{"alarm.door_forced", func(c *Config) any { return &c.Alarm.DoorForced }, zeroOr(between(time.Second, 10*time.Minute)), atReload},
		{"alarm.door_held", func(c *Config) any { return &c.Alarm.DoorHeld }, zeroOr(between(10*time.Second, 7*day)), atReload},
		{"alarm.left_unlocked", func(c *Config) any { return &c.Alarm.LeftUnlocked }, zeroOr(between(10*time.Second, 7*day)), atReload},
		{"alarm.station_silent", func(c *Config) any { return &c.Alarm.StationSilent }, zeroOr(between(time.Minute, 7*day)), atReload},
		{"alarm.refused_often", func(c *Config) any { return &c.Alarm.RefusedOften }, between(0, 1000), atReload},
		{"login.hash_memory", func(c *Config) any { return &c.Login.HashMemory }, zeroOr(between(7*mebibyte, 1024*mebibyte)), atRestart},
		{"login.hash_time", func(c *Config) any { return &c.Login.HashTime }, between(0, 100), atRestart},
		{"login.parallel_hashes", func(c *Config) any { return &c.Login.ParallelHashes }, between(0, 64), atRestart},
		{"login.account_failures", func(c *Config) any { return &c.Login.AccountFailures }, between(1, 1000), atRestart},
		{"login.address_failures", func(c *Config) any { return &c.Login.AddressFailures }, between(1, 1000), atRestart},
	}, brokerKeys()...)
}

// brokerKeys are those of brokers and servers elsewhere.
func brokerKeys() []key {
	return []key{
		{"cloud.url", func(c *Config) any { return &c.Cloud.URL }, brokerURL, atReload},
		{"cloud.client_id", func(c *Config) any { return &c.Cloud.ClientID }, printable, atReload},
		{"cloud.username", func(c *Config) any { return &c.Cloud.Username }, printable, atReload},
		{"cloud.password", func(c *Config) any { return &c.Cloud.Password }, anything, atReload},
		{"cloud.password_file", func(c *Config) any { return &c.Cloud.PasswordFile }, anything, atReload},
		{"cloud.ca", func(c *Config) any { return &c.Cloud.CA }, anything, atReload},
		{"cloud.certificate", func(c *Config) any { return &c.Cloud.Certificate }, anything, atReload},
		{"cloud.key", func(c *Config) any { return &c.Cloud.Key }, anything, atReload},
		{"cloud.ack", func(c *Config) any { return &c.Cloud.Ack }, oneOf(AckApplication, AckBroker), atReload},
		{"cloud.keys", func(c *Config) any { return &c.Cloud.Keys }, commandKeys, atReload},
		{"cloud.keepalive", func(c *Config) any { return &c.Cloud.Keepalive }, wholeSeconds(between(10*time.Second, 10*time.Minute)), atReload},
		{"cloud.records_per_second", func(c *Config) any { return &c.Cloud.RecordsPerSecond }, between(1, 10_000), atReload},
		{"cloud.window", func(c *Config) any { return &c.Cloud.Window }, between(1, 1000), atReload},
		{"homeassistant.url", func(c *Config) any { return &c.Homeassistant.URL }, brokerURL, atRestart},
		{"homeassistant.username", func(c *Config) any { return &c.Homeassistant.Username }, printable, atRestart},
		{"homeassistant.password_file", func(c *Config) any { return &c.Homeassistant.PasswordFile }, anything, atRestart},
		{"homeassistant.ca", func(c *Config) any { return &c.Homeassistant.CA }, anything, atRestart},
		{"homeassistant.prefix", func(c *Config) any { return &c.Homeassistant.Prefix }, topicPart, atRestart},
		{"homeassistant.plain_unlock", func(c *Config) any { return &c.Homeassistant.PlainUnlock }, anything, atRestart},
		{"update.from_cloud", func(c *Config) any { return &c.Update.FromCloud }, anything, atReload},
		{"update.url", func(c *Config) any { return &c.Update.URL }, updateURL, atReload},
	}
}

// maxConnections keeps a typo from asking for more descriptors than any
// system hands out.
const maxConnections = 100_000

// section and name are the parts of the path; the section is empty for a key outside
// any.
func (k key) section() string { section, _ := split(k.path); return section }
func (k key) name() string    { _, name := split(k.path); return name }

// secret reports whether the value is never shown.
func (k key) secret() bool { return site.IsSecretName(k.name()) }

// NeedRestart names the keys whose values differ and take effect only with a restart, in
// the order of the annotated file.
func NeedRestart(a, b Config) (paths []string) {
	for _, k := range keys() {
		if !k.reload && !reflect.DeepEqual(k.field(&a), k.field(&b)) {
			paths = append(paths, k.path)
		}
	}
	return paths
}

// words returns what is wrong with a value that cannot be read, without the value where
// it is a secret.
func (k key) words(err error) error {
	if err == nil || !k.secret() {
		return err
	}
	return errors.New("the value cannot be read: write it as a text in quotes")
}

// variable is the name of the key in the environment.
func (k key) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))
}

// split splits "mqtt.listen" at the dot; "data" has no section.
func split(path string) (section, name string) {
	section, name, found := strings.Cut(path, ".")
	if !found {
		return "", section
	}
	return section, name
}
