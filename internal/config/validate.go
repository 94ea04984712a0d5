package config

import (
	"fmt"

	"gatehouse/internal/cloud/mqttclient"
)

// fault is a problem of the value of one key; of none when path is empty.
type fault struct {
	path, what string
	also       string // the other key, where the values of two do not fit together; else ""
}

// longestSocket is how many bytes Linux takes for the path of a Unix socket (unix(7)).
const longestSocket = 107

// faults checks each key by itself and then what must fit together.
func (c Config) faults() []fault {
	var found []fault
	for _, k := range keys() {
		if err := k.check(k.field(&c)); err != nil {
			found = append(found, fault{path: k.path, what: err.Error()})
		}
	}
	http, mqtt, journal, cloud, house := c.HTTP, c.MQTT, c.Journal, c.Cloud, c.Homeassistant
	broker, err := mqttclient.ParseURL(cloud.URL)
	plain := err == nil && !broker.TLS
	houseBroker, err := mqttclient.ParseURL(house.URL)
	housePlain := err == nil && !houseBroker.TLS
	const (
		alone, keyAlone = "a certificate needs its key: set key in [%s]", "a key needs its certificate: set certificate in [%s]"
		share           = "max_connections_per_address is %d, and max_connections only %d"
		unused          = "%s is not used without TLS: write the url with tls://, or leave it out"
		nobody          = "a password needs a user name: set username in [cloud]" // MQTT 3.1.1, 3.1.2.9
	)
	for _, rule := range []struct {
		broken bool
		fault
	}{
		{len(mqtt.Listen)+len(mqtt.TLSListen) == 0, fault{"mqtt.listen", "stations can reach the gateway nowhere: name an address in listen or tls_listen of [mqtt]", ""}},
		{c.TLS.Certificate != "" && c.TLS.Key == "", fault{"tls.certificate", fmt.Sprintf(alone, "tls"), ""}},
		{c.TLS.Certificate == "" && c.TLS.Key != "", fault{"tls.key", fmt.Sprintf(keyAlone, "tls"), ""}},
		{cloud.Certificate != "" && cloud.Key == "", fault{"cloud.certificate", fmt.Sprintf(alone, "cloud"), ""}},
		{cloud.Certificate == "" && cloud.Key != "", fault{"cloud.key", fmt.Sprintf(keyAlone, "cloud"), ""}},
		{http.MaxConnectionsPerAddress > http.MaxConnections, fault{"http.max_connections_per_address", fmt.Sprintf(share, http.MaxConnectionsPerAddress, http.MaxConnections), "http.max_connections"}},
		{mqtt.MaxConnectionsPerAddress > mqtt.MaxConnections, fault{"mqtt.max_connections_per_address", fmt.Sprintf(share, mqtt.MaxConnectionsPerAddress, mqtt.MaxConnections), "mqtt.max_connections"}},
		{len(c.AdminSocket()) > longestSocket, fault{"admin.socket", fmt.Sprintf("the path %q is longer than the %d bytes of a socket's: set a shorter one", c.AdminSocket(), longestSocket), ""}},
		{journal.HardLimit() < journal.MaxSize, fault{"journal.hard_size", fmt.Sprintf("hard_size is %s, less than max_size, which is %s: set a larger one, or 0", journal.HardSize, journal.MaxSize), "journal.max_size"}},
		{plain && cloud.CA != "", fault{"cloud.ca", fmt.Sprintf(unused, "ca"), "cloud.url"}},
		{plain && cloud.Certificate != "", fault{"cloud.certificate", fmt.Sprintf(unused, "certificate"), "cloud.url"}},
		{cloud.Password != "" && cloud.PasswordFile != "", fault{"cloud.password_file", "password and password_file are both set: keep one of the two", "cloud.password"}},
		{cloud.Password != "" && cloud.Username == "", fault{"cloud.password", nobody, ""}},
		{cloud.PasswordFile != "" && cloud.Username == "", fault{"cloud.password_file", nobody, ""}},
		{housePlain && house.CA != "", fault{"homeassistant.ca", fmt.Sprintf(unused, "ca"), "homeassistant.url"}},
		{house.PasswordFile != "" && house.Username == "", fault{"homeassistant.password_file", "a password needs a user name: set username in [homeassistant]", ""}},
	} {
		if rule.broken {
			found = append(found, rule.fault)
		}
	}
	return found
}
