package config

import (
	"errors"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// key is one setting: where its value lies in a Config and which values are
// right.
type key struct {
	path  string            // as in the file: "mqtt.tls_listen", or "data" outside any section
	field func(*Config) any // points to its field
	check check
}

// keys is the table of every setting, in the order of the annotated file.
func keys() []key {
	return []key{
		{"data", func(c *Config) any { return &c.Data }, directory},
		{"data_copy", func(c *Config) any { return &c.DataCopy }, anything},
		{"name", func(c *Config) any { return &c.Name }, hostLabel},
		{"time_zone", func(c *Config) any { return &c.TimeZone }, timeZone},
		{"log.level", func(c *Config) any { return &c.Log.Level }, oneOf("debug", "info", "warn", "error")},
		{"log.format", func(c *Config) any { return &c.Log.Format }, oneOf("text", "json")},
		{"tls.certificate", func(c *Config) any { return &c.TLS.Certificate }, anything},
		{"tls.key", func(c *Config) any { return &c.TLS.Key }, anything},
		{"http.listen", func(c *Config) any { return &c.HTTP.Listen }, addresses},
		{"http.tls_listen", func(c *Config) any { return &c.HTTP.TLSListen }, addresses},
		{"http.metrics", func(c *Config) any { return &c.HTTP.Metrics }, anything},
		{"http.max_connections", func(c *Config) any { return &c.HTTP.MaxConnections }, between(1, maxConnections)},
		{"http.max_connections_per_address", func(c *Config) any { return &c.HTTP.MaxConnectionsPerAddress }, between(1, maxConnections)},
		{"mqtt.listen", func(c *Config) any { return &c.MQTT.Listen }, addresses},
		{"mqtt.tls_listen", func(c *Config) any { return &c.MQTT.TLSListen }, addresses},
		{"mqtt.max_connections", func(c *Config) any { return &c.MQTT.MaxConnections }, between(1, maxConnections)},
		{"mqtt.max_connections_per_address", func(c *Config) any { return &c.MQTT.MaxConnectionsPerAddress }, between(1, maxConnections)},
		{"mqtt.packets_per_second", func(c *Config) any { return &c.MQTT.PacketsPerSecond }, between(1.0, 10_000)},
		{"mqtt.connect_timeout", func(c *Config) any { return &c.MQTT.ConnectTimeout }, between(time.Second, time.Minute)},
		{"mqtt.write_timeout", func(c *Config) any { return &c.MQTT.WriteTimeout }, between(100*time.Millisecond, time.Minute)},
		{"mqtt.max_packet_size", func(c *Config) any { return &c.MQTT.MaxPacketSize }, between(1024, 65536)},
		{"admin.socket", func(c *Config) any { return &c.Admin.Socket }, anything},
		{"admin.group", func(c *Config) any { return &c.Admin.Group }, anything},
		{"unlock.ttl", func(c *Config) any { return &c.Unlock.TTL }, wholeSeconds(between(time.Second, time.Minute))},
		{"unlock.account_rate", func(c *Config) any { return &c.Unlock.AccountRate }, zeroOr(between(0.001, 10_000))},
		{"unlock.account_burst", func(c *Config) any { return &c.Unlock.AccountBurst }, between(0, 100_000)},
		{"unlock.account_pending", func(c *Config) any { return &c.Unlock.AccountPending }, between(0, 1000)},
		{"journal.max_age", func(c *Config) any { return &c.Journal.MaxAge }, between(time.Hour, 100*365*day)},
		{"journal.max_size", func(c *Config) any { return &c.Journal.MaxSize }, between(megabyte, 1000*1000*megabyte)},
		{"journal.hard_size", func(c *Config) any { return &c.Journal.HardSize }, zeroOr(between(megabyte, 2*1000*1000*megabyte))},
		{"station.battery_low", func(c *Config) any { return &c.Station.BatteryLow }, between(0.0, 60)},
		{"station.save_interval", func(c *Config) any { return &c.Station.SaveInterval }, between(time.Second, time.Hour)},
		{"login.hash_memory", func(c *Config) any { return &c.Login.HashMemory }, zeroOr(between(7*mebibyte, 1024*mebibyte))},
		{"login.hash_time", func(c *Config) any { return &c.Login.HashTime }, between(0, 100)},
		{"login.parallel_hashes", func(c *Config) any { return &c.Login.ParallelHashes }, between(0, 64)},
		{"login.account_failures", func(c *Config) any { return &c.Login.AccountFailures }, between(1, 1000)},
		{"login.address_failures", func(c *Config) any { return &c.Login.AddressFailures }, between(1, 1000)},
		{"cloud.url", func(c *Config) any { return &c.Cloud.URL }, brokerURL},
		{"cloud.client_id", func(c *Config) any { return &c.Cloud.ClientID }, printable},
		{"cloud.username", func(c *Config) any { return &c.Cloud.Username }, printable},
		{"cloud.password", func(c *Config) any { return &c.Cloud.Password }, anything},
		{"cloud.password_file", func(c *Config) any { return &c.Cloud.PasswordFile }, anything},
		{"cloud.ca", func(c *Config) any { return &c.Cloud.CA }, anything},
		{"cloud.certificate", func(c *Config) any { return &c.Cloud.Certificate }, anything},
		{"cloud.key", func(c *Config) any { return &c.Cloud.Key }, anything},
		{"cloud.ack", func(c *Config) any { return &c.Cloud.Ack }, oneOf(AckApplication, AckBroker)},
		{"cloud.keys", func(c *Config) any { return &c.Cloud.Keys }, commandKeys},
		{"cloud.keepalive", func(c *Config) any { return &c.Cloud.Keepalive }, wholeSeconds(between(10*time.Second, 10*time.Minute))},
		{"cloud.records_per_second", func(c *Config) any { return &c.Cloud.RecordsPerSecond }, between(1, 10_000)},
		{"cloud.window", func(c *Config) any { return &c.Cloud.Window }, between(1, 1000)},
	}
}

// maxConnections keeps a typo from asking for more descriptors than any
// system hands out.
const maxConnections = 100_000

// section and name take the path apart; the section is empty for a key outside
// any.
func (k key) section() string { section, _ := split(k.path); return section }
func (k key) name() string    { _, name := split(k.path); return name }

// secret reports whether the value is one that nobody may see.
func (k key) secret() bool { return site.IsSecretName(k.name()) }

// words gives what is wrong with a value that cannot be read; of a secret one, no
// word of the value itself.
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

// split takes "mqtt.listen" apart at the dot; "data" has no section.
func split(path string) (section, name string) {
	section, name, found := strings.Cut(path, ".")
	if !found {
		return "", section
	}
	return section, name
}
