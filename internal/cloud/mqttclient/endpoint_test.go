package mqttclient_test

import (
	"strings"
	"testing"

	"gatehouse/internal/cloud/mqttclient"
)

func TestParseURL(t *testing.T) {
	for _, test := range []struct {
		text string
		want mqttclient.Endpoint
	}{
		{"tls://broker.example", mqttclient.Endpoint{Host: "broker.example", Port: "8883", TLS: true}},
		{"mqtts://broker.example:443/", mqttclient.Endpoint{Host: "broker.example", Port: "443", TLS: true}},
		{"ssl://192.0.2.7", mqttclient.Endpoint{Host: "192.0.2.7", Port: "8883", TLS: true}},
		{"TLS://[2001:db8::7]:8884", mqttclient.Endpoint{Host: "2001:db8::7", Port: "8884", TLS: true}},
		{"tcp://localhost", mqttclient.Endpoint{Host: "localhost", Port: "1883"}},
		{"mqtt://localhost:65535", mqttclient.Endpoint{Host: "localhost", Port: "65535"}},
	} {
		got, err := mqttclient.ParseURL(test.text)
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.text, got, err, test.want)
		}
	}
}

func TestParseURL_refused(t *testing.T) {
	const secret = "hunter2"
	for _, test := range []struct{ text, want string }{
		{"", "write tls://HOST"},
		{"tls:broker.example", "write tls://HOST"},
		{"broker.example", "write tls://HOST"},
		{"broker.example:8883", "write tls://HOST"},
		{"192.0.2.7:8883", "write tls://HOST"},
		{"localhost:hunter2", "write tls://HOST"},
		{"http://broker.example", "write tls://HOST"},
		{"ws://broker.example", "write tls://HOST"},
		{"wss://broker.example/mqtt", "write tls://HOST"},
		{"wss://broker.example/", "write tls://HOST"},
		{"tls://", "write tls://HOST"},
		{"tls://:8883", "write tls://HOST"},
		{"tls://broker.example:", "write tls://HOST"},
		{"tls://broker.example:0", "write tls://HOST"},
		{"tls://broker.example:65536", "write tls://HOST"},
		{"tls://broker.example:hunter2", "write tls://HOST"},
		{"tls://broker.example/hunter2", "write tls://HOST"},
		{"tls://broker.example?password=hunter2", "write tls://HOST"},
		{"tls://broker.example#hunter2", "write tls://HOST"},
		{"tls://bro ker.example", "write tls://HOST"},
		{"tls://%68unter2", "write tls://HOST"},
		{"tls://[::1", "write tls://HOST"},
		{"tls://joe:hunter2@broker.example", "set username and password_file"},
		{"tls://joe@broker.example", "set username and password_file"},
		{"tls://jo e:hunter2\x00@broker.example", "set username and password_file"},
	} {
		e, err := mqttclient.ParseURL(test.text)
		if err == nil {
			t.Errorf("%q: got %+v, want an error", test.text, e)
			continue
		}
		contains(t, "the error", err.Error(), test.want)
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "joe") {
			t.Errorf("%q: the error holds what may be a secret: %v", test.text, err)
		}
	}
}
