package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/station"
	"gatehouse/internal/site"
)

// Config is the whole configuration. The name of a key in the file is the name
// of the field in snake case within the section of the same name, and in the
// environment GATEHOUSE_<SECTION>_<KEY>: MQTT.TLSListen is tls_listen under
// [mqtt] and GATEHOUSE_MQTT_TLS_LISTEN.
type Config struct {
	Data     string // data: the directory of the database and the keys
	DataCopy string // data_copy: the directory of the copy of everything but the journal; "": Data
	Name     string // name: what this gateway is called on the network; "" is the system's host name, see [Config.HostName]
	TimeZone string // time_zone: IANA name in which the hours of grants are meant; "" is the system's

	Log     Log                 // [log]
	TLS     TLS                 // [tls]
	HTTP    HTTP                // [http]
	MQTT    MQTT                // [mqtt]
	Admin   Admin               // [admin]
	Unlock  Unlock              // [unlock]
	Journal Journal             // [journal]
	Station Station             // [station]
	Alarm   station.AlarmLimits // [alarm]
	Login   Login               // [login]
	Cloud   Cloud               // [cloud]

	Homeassistant Homeassistant // [homeassistant]

	Update Update // [update]
}

// Log is about what the process writes to the system log.
type Log struct {
	Level  string // level: debug, info, warn or error
	Format string // format: text or json
}

// TLS names the PEM files of every TLS listener. Both or neither are set; with
// neither, the gateway makes a certificate of its own.
type TLS struct {
	Certificate string // certificate: the chain, leaf first
	Key         string // key: its private key
}

// HTTP is the service of apps: /v1 and /local/v1.
type HTTP struct {
	Listen                   []string // listen: plain addresses, host:port; port 0 takes a free one
	TLSListen                []string // tls_listen: the same with TLS
	Metrics                  bool     // metrics: serve /metrics also on listeners off loopback
	MaxConnections           int      // max_connections: open at once and not being worked on, all listeners together
	MaxConnectionsPerAddress int      // max_connections_per_address: open at once from one client address
}

// MQTT is the embedded broker, to which the stations connect.
type MQTT struct {
	Listen                   []string      // listen: plain addresses, host:port; port 0 takes a free one
	TLSListen                []string      // tls_listen: the same with TLS
	MaxConnections           int           // max_connections: open at once, all listeners together
	MaxConnectionsPerAddress int           // max_connections_per_address: of these, from one address
	PacketsPerSecond         float64       // packets_per_second: what one connection may send
	ConnectTimeout           time.Duration // connect_timeout: from the TCP connection, or the end of its TLS handshake, to a complete CONNECT
	WriteTimeout             time.Duration // write_timeout: of one packet, before the connection is reset
	MaxPacketSize            int           // max_packet_size: in bytes; a larger packet ends the connection
}

// Admin is the administration socket, which the command line uses.
type Admin struct {
	Socket string // socket: its path; "" is admin.sock in the data directory, see [Config.AdminSocket]
	Group  string // group: the system group that may use it beside its owner; "" is none
}

// Unlock is about commands to stations.
type Unlock struct {
	TTL time.Duration // ttl: the deadline of a command, one second to one minute

	// What one account may ask for; 0 switches each off.
	AccountRate    float64 // account_rate: unlocks a second, sustained
	AccountBurst   int     // account_burst: unlocks at once
	AccountPending int     // account_pending: in flight for one station
}

// Journal bounds what is kept.
type Journal struct {
	MaxAge  time.Duration // max_age: older records are dropped
	MaxSize Bytes         // max_size: beyond it the oldest records are dropped
	// HardSize is hard_size: records that the cloud has not taken are kept beyond MaxAge
	// and MaxSize up to it; 0 is twice MaxSize, see [Journal.HardLimit].
	HardSize Bytes
}

// Station is about what stations report.
type Station struct {
	BatteryLow   float64       // battery_low: volts below which a battery counts as low; 0 is never
	SaveInterval time.Duration // save_interval: how often reported states go to disk, so that a card lasts
}

// Login is about the cost of guessing passwords.
type Login struct {
	HashMemory      Bytes // hash_memory: of one argon2id hash; 0 is by the memory of the board
	HashTime        int   // hash_time: passes over it; 0 is by hash_memory
	ParallelHashes  int   // parallel_hashes: computed at once; 0 is one fewer than there are processors, at least 1
	AccountFailures int   // account_failures: failed logins at once of an account at one client address, before it has to wait there
	AddressFailures int   // address_failures: the same of one client address, for all accounts
}

// Defaults returns the configuration of a gateway without any settings. From environ, in
// the form of [os.Environ], it reads XDG_STATE_HOME and HOME only, for the data
// directory; without either Data is empty, which [Lay] refuses.
func Defaults(environ []string) Config {
	return Config{
		Data: stateDirectory(environ),
		Log:  Log{Level: "info", Format: "text"},
		HTTP: HTTP{
			Listen:                   []string{"127.0.0.1:8080"},
			TLSListen:                []string{},
			MaxConnections:           512,
			MaxConnectionsPerAddress: 256,
		},
		MQTT: MQTT{
			Listen:                   []string{"127.0.0.1:1883"},
			TLSListen:                []string{},
			MaxConnections:           4096,
			MaxConnectionsPerAddress: 2048,
			PacketsPerSecond:         50,
			ConnectTimeout:           5 * time.Second,
			WriteTimeout:             2 * time.Second,
			MaxPacketSize:            8192,
		},
		Unlock:  Unlock{TTL: site.DefaultTTL, AccountRate: 1, AccountBurst: 30, AccountPending: 4},
		Journal: Journal{MaxAge: 365 * 24 * time.Hour, MaxSize: 256 * 1000 * 1000},
		Station: Station{BatteryLow: 3.3, SaveInterval: 9 * time.Minute},
		Alarm: station.AlarmLimits{
			DoorForced: 10 * time.Second, DoorHeld: 3 * time.Minute, LeftUnlocked: 15 * time.Minute, StationSilent: 5 * time.Minute, RefusedOften: 5,
		},
		Login: Login{AccountFailures: 10, AddressFailures: 30},
		Cloud: Cloud{Broker: mqttclient.Broker{Keepalive: 30 * time.Second}, Ack: AckApplication, Keys: []string{}, RecordsPerSecond: 100, Window: 100},

		Homeassistant: Homeassistant{Prefix: "homeassistant"},
	}
}

// stateDirectory is where an ordinary user's gateway keeps its data (XDG Base
// Directory Specification: a relative XDG_STATE_HOME is ignored).
func stateDirectory(environ []string) string {
	if state := Lookup(environ, "XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "gatehouse")
	}
	if home := Lookup(environ, "HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "gatehouse")
	}
	return ""
}

// AdminSocket is the path of the administration socket.
func (c Config) AdminSocket() string {
	if c.Admin.Socket == "" {
		return filepath.Join(c.Data, "admin.sock")
	}
	return c.Admin.Socket
}

// HardLimit is how large the journal may become while the cloud acknowledges nothing.
func (j Journal) HardLimit() Bytes {
	if j.HardSize == 0 {
		return 2 * j.MaxSize
	}
	return j.HardSize
}

// HostName is what this gateway is called on the network, without any domain: Name,
// else what the system is called, else "gatehouse".
func (c Config) HostName() string {
	name := c.Name
	if name == "" {
		system, _ := os.Hostname() // which then has no name
		name, _, _ = strings.Cut(system, ".")
	}
	if name == "" || hostLabel(&name) != nil {
		return "gatehouse"
	}
	return strings.ToLower(name)
}
