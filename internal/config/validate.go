package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Where string // "/etc/gatehouse/gatehouse.toml:12", "GATEHOUSE_DATA", or the key where neither set it
	What  string // what is wrong, and what to do about it
}

// String gives the problem on one line.
func (p Problem) String() string { return p.Where + ": " + p.What }

// Error is every problem of a configuration. It has at least one.
type Error struct{ Problems []Problem }

// Error gives one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Validate reports everything that is wrong with c as one [*Error], nil when all
// is well. It cannot know where a value came from and so names the keys; [Load],
// which calls it, names files, lines and variables instead.
func (c Config) Validate() error {
	return joined(c.faults(), func(path string) string { return path })
}

// fault is a problem of the value of one key; of none when path is empty.
type fault struct{ path, what string }

// joined makes an Error of the faults, nil of none; where names the source of a
// key.
func joined(faults []fault, where func(path string) string) error {
	if len(faults) == 0 {
		return nil
	}
	e := &Error{}
	for _, f := range faults {
		e.Problems = append(e.Problems, problem(where(f.path), f))
	}
	return e
}

// problem names the key of f unless where does.
func problem(where string, f fault) Problem {
	if f.path == "" || where == f.path {
		return Problem{Where: where, What: f.what}
	}
	return Problem{Where: where, What: f.path + ": " + f.what}
}

// faults checks each key by itself and then what must fit together.
func (c Config) faults() []fault {
	var found []fault
	for _, k := range keys() {
		if err := k.check(k.field(&c)); err != nil {
			found = append(found, fault{k.path, err.Error()})
		}
	}
	return slices.Concat(found, c.listenFaults(), c.tlsFaults(), c.limitFaults(), c.socketFaults())
}

// listener is one configured address with the key that names it.
type listener struct {
	path, text string
	tls        bool
}

func (c Config) listeners() []listener {
	var all []listener
	for _, group := range []struct {
		path  string
		texts []string
		tls   bool
	}{
		{"http.listen", c.HTTP.Listen, false},
		{"http.tls_listen", c.HTTP.TLSListen, true},
		{"mqtt.listen", c.MQTT.Listen, false},
		{"mqtt.tls_listen", c.MQTT.TLSListen, true},
	} {
		for _, text := range group.texts {
			all = append(all, listener{group.path, text, group.tls})
		}
	}
	return all
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
			found = append(found, fault{later.path, fmt.Sprintf("%s is taken already by %s in %s: give each listener a port of its own",
				quote(later.text), quote(all[clash].text), all[clash].path)})
		}
	}
	return found
}

// tlsFaults: a TLS listener without a certificate is a mistake, never a plain
// listener.
func (c Config) tlsFaults() []fault {
	if c.TLS.Certificate != "" && c.TLS.Key != "" {
		return nil
	}
	var found []fault
	for _, l := range c.listeners() {
		if l.tls && !slices.ContainsFunc(found, func(f fault) bool { return f.path == l.path }) {
			found = append(found, fault{l.path, "TLS needs a certificate and its key: set certificate and key in [tls]"})
		}
	}
	switch {
	case c.TLS.Certificate != "":
		found = append(found, fault{"tls.certificate", "a certificate needs its key: set key in [tls]"})
	case c.TLS.Key != "":
		found = append(found, fault{"tls.key", "a key needs its certificate: set certificate in [tls]"})
	}
	return found
}

// limitFaults: the share of one address cannot be larger than the whole.
func (c Config) limitFaults() []fault {
	var found []fault
	for _, l := range []struct {
		path       string
		each, most int
	}{
		{"http.max_connections_per_address", c.HTTP.MaxConnectionsPerAddress, c.HTTP.MaxConnections},
		{"mqtt.max_connections_per_address", c.MQTT.MaxConnectionsPerAddress, c.MQTT.MaxConnections},
	} {
		if l.each > l.most {
			found = append(found, fault{l.path, fmt.Sprintf("%d is more than max_connections, which is %d", l.each, l.most)})
		}
	}
	return found
}

// socketFaults: Linux takes 107 bytes for the path of a Unix socket (unix(7)).
func (c Config) socketFaults() []fault {
	const most = 107
	socket := c.AdminSocket()
	if len(socket) <= most {
		return nil
	}
	return []fault{{"admin.socket", fmt.Sprintf("the path %q is %d bytes long and a socket's may be %d: set a shorter one", socket, len(socket), most)}}
}
