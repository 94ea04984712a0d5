package config

import (
	"fmt"
	"slices"
)

// fault is a problem of the value of one key; of none when path is empty.
type fault struct {
	path, what string
	also       string // the other key, where the values of two do not fit together; else ""
}

// faults checks each key by itself and then what must fit together.
func (c Config) faults() []fault {
	var found []fault
	for _, k := range keys() {
		if err := k.check(k.field(&c)); err != nil {
			found = append(found, fault{path: k.path, what: err.Error()})
		}
	}
	return slices.Concat(found, c.stationFaults(), c.pairFaults(), c.limitFaults(), c.socketFaults(), c.journalFaults(), c.Cloud.faults())
}

// stationFaults: a gateway that no station can reach opens no door.
func (c Config) stationFaults() []fault {
	if len(c.MQTT.Listen)+len(c.MQTT.TLSListen) > 0 {
		return nil
	}
	return []fault{{path: "mqtt.listen", what: "stations can reach the gateway nowhere: name an address in listen or tls_listen of [mqtt]"}}
}

// pairFaults: half a certificate is a mistake. Without any in [tls], the gateway makes its
// own.
func (c Config) pairFaults() (found []fault) {
	for _, p := range []struct{ section, certificate, key string }{
		{"tls", c.TLS.Certificate, c.TLS.Key}, {"cloud", c.Cloud.Certificate, c.Cloud.Key},
	} {
		switch {
		case p.certificate != "" && p.key == "":
			found = append(found, fault{path: p.section + ".certificate", what: "a certificate needs its key: set key in [" + p.section + "]"})
		case p.certificate == "" && p.key != "":
			found = append(found, fault{path: p.section + ".key", what: "a key needs its certificate: set certificate in [" + p.section + "]"})
		}
	}
	return found
}

// limitFaults: the share of one address cannot be larger than the whole.
func (c Config) limitFaults() []fault {
	var found []fault
	for _, l := range []struct {
		section    string
		each, most int
	}{
		{"http", c.HTTP.MaxConnectionsPerAddress, c.HTTP.MaxConnections},
		{"mqtt", c.MQTT.MaxConnectionsPerAddress, c.MQTT.MaxConnections},
	} {
		if l.each > l.most {
			found = append(found, fault{
				path: l.section + ".max_connections_per_address", also: l.section + ".max_connections",
				what: fmt.Sprintf("max_connections_per_address is %d, and max_connections only %d", l.each, l.most),
			})
		}
	}
	return found
}

// journalFaults: the hard limit is the larger one.
func (c Config) journalFaults() []fault {
	j := c.Journal
	if j.HardLimit() >= j.MaxSize {
		return nil
	}
	return []fault{{
		path: "journal.hard_size", also: "journal.max_size",
		what: fmt.Sprintf("hard_size is %s, less than max_size, which is %s: set a larger one, or 0", j.HardSize, j.MaxSize),
	}}
}

// socketFaults: Linux takes 107 bytes for the path of a Unix socket (unix(7)).
func (c Config) socketFaults() []fault {
	const most = 107
	socket := c.AdminSocket()
	if len(socket) <= most {
		return nil
	}
	return []fault{{
		path: "admin.socket",
		what: fmt.Sprintf("the path %q is %d bytes long and a socket's may be %d: set a shorter one", socket, len(socket), most),
	}}
}
