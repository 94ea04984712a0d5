package config

import (
	"fmt"
	"slices"

	"gatehouse/internal/setup/tomlfile"
)

// fault is a problem of the value of one key; of none when path is empty.
type fault struct {
	path, what string
	other      *fault // where two values do not fit together, the same as seen from the other; or nil
}

// faults checks each key by itself and then what must fit together.
func (c Config) faults() []fault {
	var found []fault
	for _, k := range keys() {
		if err := k.check(k.field(&c)); err != nil {
			found = append(found, fault{path: k.path, what: err.Error()})
		}
	}
	return slices.Concat(found, c.listenFaults(), c.stationFaults(), c.tlsFaults(), c.limitFaults(), c.socketFaults(), c.journalFaults(), c.Cloud.faults())
}

// listener is one configured address with the key that names it.
type listener struct {
	path, text string
}

func (c Config) listeners() []listener {
	var all []listener
	for _, group := range []struct {
		path  string
		texts []string
	}{
		{"http.listen", c.HTTP.Listen},
		{"http.tls_listen", c.HTTP.TLSListen},
		{"mqtt.listen", c.MQTT.Listen},
		{"mqtt.tls_listen", c.MQTT.TLSListen},
	} {
		for _, text := range group.texts {
			all = append(all, listener{group.path, text})
		}
	}
	return all
}

func (l listener) takenBy(other listener) string {
	return fmt.Sprintf("%s is taken already by %s in %s: give each listener a port of its own", tomlfile.Quote(l.text), tomlfile.Quote(other.text), other.path)
}

// listenFaults finds addresses that cannot be bound at once. What is no address
// was reported before.
func (c Config) listenFaults() []fault {
	var found []fault
	all := c.listeners()
	for i, later := range all {
		b, err := parseAddress(later.text)
		if err != nil {
			continue
		}
		clash := slices.IndexFunc(all[:i], func(earlier listener) bool {
			a, err := parseAddress(earlier.text)
			return err == nil && a.clashes(b)
		})
		if clash >= 0 {
			earlier := all[clash]
			found = append(found, fault{later.path, later.takenBy(earlier), &fault{path: earlier.path, what: earlier.takenBy(later)}})
		}
	}
	return found
}

// stationFaults: a gateway that no station can reach opens no door.
func (c Config) stationFaults() []fault {
	if len(c.MQTT.Listen)+len(c.MQTT.TLSListen) > 0 {
		return nil
	}
	return []fault{{path: "mqtt.listen", what: "stations can reach the gateway nowhere: name an address in listen or tls_listen of [mqtt]"}}
}

// tlsFaults: half a certificate is a mistake. Without any, the gateway makes its own.
func (c Config) tlsFaults() []fault {
	switch {
	case c.TLS.Certificate != "" && c.TLS.Key == "":
		return []fault{{path: "tls.certificate", what: "a certificate needs its key: set key in [tls]"}}
	case c.TLS.Certificate == "" && c.TLS.Key != "":
		return []fault{{path: "tls.key", what: "a key needs its certificate: set certificate in [tls]"}}
	default:
		return nil
	}
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
				l.section + ".max_connections_per_address", fmt.Sprintf("%d is more than max_connections, which is %d", l.each, l.most),
				&fault{path: l.section + ".max_connections", what: fmt.Sprintf("%d is less than max_connections_per_address, which is %d", l.most, l.each)},
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
		"journal.hard_size", fmt.Sprintf("%s is less than max_size, which is %s: set a larger one, or 0", j.HardSize, j.MaxSize),
		&fault{path: "journal.max_size", what: fmt.Sprintf("%s is more than hard_size, which is %s", j.MaxSize, j.HardSize)},
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
