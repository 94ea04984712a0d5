package mqttclient

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// Endpoint is where a broker is reached, as its URL states it.
type Endpoint struct {
	Host string // without port and brackets; its certificate must bear it
	Port string
	TLS  bool
}

// What may be wrong with a URL. The text itself is not repeated: a password may stand
// in it.
var (
	errForm = errors.New("the URL of the broker is none: write tls://HOST, tls://HOST:PORT or, without encryption, tcp://HOST:PORT")
	errUser = errors.New("the URL of the broker holds an @: set username and password_file instead, and write tls://HOST:PORT")
)

// ParseURL reads the URL of a broker: tls://host (also mqtts, ssl; port 8883) or
// tcp://host (also mqtt; port 1883), each with another port if need be. Its errors show
// how to write it, and never repeat the text, which may contain a password.
func ParseURL(text string) (Endpoint, error) {
	if strings.Contains(text, "@") {
		return Endpoint{}, errUser
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || strings.TrimPrefix(u.Path, "/") != "" || strings.ContainsAny(text, "?#% ") {
		return Endpoint{}, errForm
	}
	e := Endpoint{Host: u.Hostname(), Port: "1883"}
	switch u.Scheme {
	case "tls", "ssl", "mqtts":
		e.TLS, e.Port = true, "8883"
	case "tcp", "mqtt":
	default:
		return Endpoint{}, errForm
	}
	e.Port = cmp.Or(u.Port(), e.Port)
	if n, err := strconv.ParseUint(e.Port, 10, 16); err != nil || n == 0 || e.Host == "" || strings.HasSuffix(u.Host, ":") {
		return Endpoint{}, errForm
	}
	return e, nil
}
