package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/setup/tomlfile"
)

// What counts as the delivery of a journal record: the values of [Cloud.Ack].
const (
	AckApplication = "application" // the application said so on the topic ack
	AckBroker      = "broker"      // the broker has acknowledged it
)

// Cloud is the gateway's own connection to an MQTT broker elsewhere; without a URL there is
// none. Files are paths, or credential:NAME as in [TLS]. ClientID is that of the gateway
// where it is "".
type Cloud struct {
	mqttclient.Broker
	Ack              string   // ack: AckApplication or AckBroker
	Keys             []string // keys: who may sign commands, each "KID BASE64" of an Ed25519 public key
	RecordsPerSecond int      // records_per_second: how fast a backlog is sent
	Window           int      // window: records that are sent before the first is acknowledged
}

// Homeassistant is the connection to the MQTT broker of a house, where Home Assistant sees
// the stations. Files are as those of [Cloud].
type Homeassistant struct {
	URL          string // url: as that of [Cloud]; "": none, and nothing runs
	Username     string // username: "" is none
	PasswordFile string // password_file: the file that holds the password
	CA           string // ca: the file of the authorities that sign the broker's certificate; "" is the system's
	Prefix       string // prefix: of the topics of Home Assistant
	PlainUnlock  bool   // plain_unlock: unlocks are taken without TLS too
}

// topicPart accepts the part of an MQTT topic.
func topicPart(field any) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	text := *field.(*string)
	if text != "" && len(text) <= 64 && strings.Trim(text, letters) == "" {
		return nil
	}
	return fmt.Errorf("%s cannot be part of a topic: write up to 64 letters, digits, _ and -", tomlfile.Quote(text))
}

// brokerURL accepts no text, or where a broker is reached.
func brokerURL(field any) error {
	text, ok := field.(*string)
	if !ok || *text == "" {
		return nil
	}
	_, err := mqttclient.ParseURL(*text)
	return err //nolint:wrapcheck // a sentence that needs no more
}

// printable accepts a text of one line, as the fields of MQTT hold them.
func printable(field any) error {
	const longest = 512
	text, ok := field.(*string)
	if !ok || len(*text) <= longest && utf8.ValidString(*text) && !strings.ContainsFunc(*text, unicode.IsControl) {
		return nil
	}
	return fmt.Errorf("%s cannot be used: write a text of one line, up to %d bytes", tomlfile.Quote(*text), longest)
}

// commandKeys checks the list of those who may sign commands.
func commandKeys(field any) error {
	list, ok := field.(*[]string)
	if !ok {
		return nil
	}
	_, err := api.NewKeyring(*list)
	return err //nolint:wrapcheck // as above
}
