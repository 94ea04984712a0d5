package doctor_test

import (
	"testing"
	"testing/fstest"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

const (
	cloudText = "[cloud]\nurl = \"tls://mqtt.example.test\"\nkeys = [\"a 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\"]\n"
	rootsFile = "etc/ssl/certs/ca-certificates.crt"
)

// connect gives the board a cloud link that works, with more lines of configuration.
func (w *ward) connect(more string) {
	w.config += cloudText + more
	w.files[rootsFile] = &fstest.MapFile{Data: []byte("roots")}
	w.status.Cloud = &adminapi.CloudStatus{
		URL: "tls://mqtt.example.test", Connected: true, Since: site.At(now().Add(-time.Hour)), Delivered: 4700, Waiting: 11,
	}
}

func ofCloud() []illness {
	return []illness{
		{"connected", func(_ *testing.T, w *ward) { w.connect("") }, nil, "delivered up to record 4700, 11 wait"},
		{"no roots", func(_ *testing.T, w *ward) {
			w.connect("")
			delete(w.files, rootsFile)
		}, []string{
			"warning cloud: This system knows no certificate authorities, so that no broker's certificate can be checked > " +
				"apt-get install ca-certificates, or name the broker's authority as ca in [cloud]",
		}, ""},
		{"link down", func(_ *testing.T, w *ward) {
			w.connect("")
			w.status.Cloud.Connected, w.status.Cloud.Error = false, "resolve: no such host"
		}, []string{
			"notice cloud: The cloud link is down since 2026-11-21 07:00:00 UTC; doors go on working > gatehouse cloud test",
		}, "cloud: resolve: no such host"},
		{"reload forgotten", func(_ *testing.T, w *ward) {
			w.connect("")
			w.status.Cloud = nil
		}, []string{
			"notice cloud: The gateway that runs goes by another [cloud] than the configuration has > systemctl reload gatehouse",
		}, "broker tls://mqtt.example.test"},
		{"reload forgotten after the cloud was removed", func(_ *testing.T, w *ward) {
			config := w.config
			w.connect("")
			w.config = config
		}, []string{
			"warning cloud: The gateway that runs has a cloud link, which the configuration names no more: it still takes commands and hands records up > systemctl reload gatehouse",
		}, "cloud: broker tls://mqtt.example.test"},
		{"files missing", func(_ *testing.T, w *ward) {
			w.connect("username = \"x\"\npassword_file = \"credential:cloud\"\nca = \"/etc/gatehouse/ca.pem\"\n")
		}, []string{
			"warning cloud: The cloud link cannot read password_file > put it there, or correct password_file in [cloud]",
			"warning cloud: The cloud link cannot read ca > put it there, or correct ca in [cloud]",
		}, "/etc/gatehouse/credentials/cloud"},
		{"client certificate ends", func(t *testing.T, w *ward) {
			w.connect("certificate = \"/etc/gatehouse/client.pem\"\nkey = \"/etc/gatehouse/client.key\"\n")
			w.files["etc/gatehouse/client.key"] = &fstest.MapFile{Data: []byte("key")}
			w.files["etc/gatehouse/client.pem"] = &fstest.MapFile{Data: certificateUntil(t, now().Add(5*24*time.Hour))}
		}, []string{
			"warning cloud: The client certificate of the cloud link expires in 5 days > put a new one in its place; the next connection takes it",
		}, "/etc/gatehouse/client.pem is valid until 2026-11-26"},
		{"client certificate has ended", func(t *testing.T, w *ward) {
			w.connect("certificate = \"/etc/gatehouse/client.pem\"\nkey = \"/etc/gatehouse/client.key\"\n")
			w.files["etc/gatehouse/client.key"] = &fstest.MapFile{Data: []byte("key")}
			w.files["etc/gatehouse/client.pem"] = &fstest.MapFile{Data: certificateUntil(t, now().Add(-time.Hour))}
		}, []string{
			"warning cloud: The client certificate of the cloud link has expired > put a new one in its place; the next connection takes it",
		}, ""},
		{"client certificate damaged", func(_ *testing.T, w *ward) {
			w.connect("certificate = \"/etc/gatehouse/client.pem\"\nkey = \"/etc/gatehouse/client.key\"\n")
			w.files["etc/gatehouse/client.key"] = &fstest.MapFile{Data: []byte("key")}
			w.files["etc/gatehouse/client.pem"] = &fstest.MapFile{Data: []byte("nonsense")}
		}, []string{
			"warning cloud: The client certificate of the cloud link cannot be used > put a PEM file there",
		}, ""},
		{"no key trusted", func(_ *testing.T, w *ward) {
			w.connect("")
			w.config = configText + "[cloud]\nurl = \"tls://mqtt.example.test\"\n"
		}, []string{
			"notice cloud: No key is trusted: commands from the cloud are refused > gatehouse cloud keygen, and its line into keys of [cloud]",
		}, "keys is empty"},
	}
}

// certificateUntil gives a certificate in PEM that lasts as long.
func certificateUntil(t *testing.T, until time.Time) []byte {
	t.Helper()
	chain, _ := healthy(t).certify(t, certificate{until: until})
	return chain
}
