package firstboot_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

const examplePath = "../../configs/gatehouse-site.example.toml"

// The example is right, as it is shipped and with every line in use.
func TestRun_example(t *testing.T) {
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`(?m)^#(\S)`).ReplaceAllString(string(text), "$1")
	if strings.Count(whole, "#") > strings.Count(string(text), "#")-10 {
		t.Error("hardly any line was taken into use")
	}
	for name, text := range map[string]string{"as shipped": string(text), "every line": whole} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.write("boot/gatehouse-site.toml", text)
			b.write("boot/cleaning.password", "one-line-of-a-password\r\n")
			cert, key := certificate(t)
			b.write("etc/credentials/gate.crt", cert)
			b.write("etc/credentials/gate.key", key)
			out, err := b.run()
			if err != nil {
				t.Fatal(err)
			}
			if len(b.accounts) != 3 || len(b.stations) != 2 || b.config.Name != "north-gate" || len(out.Warnings) != 0 {
				t.Errorf("%d accounts, %d stations, %+v", len(b.accounts), len(b.stations), out)
			}
			used := text == whole
			if used != (b.accounts["cleaning@example.test"] == "one-line-of-a-password") || used != (b.config.TLS.Certificate != "") || used == b.exists("boot/cleaning.password") {
				t.Error("what stands in the lines was not used, or was without being in use")
			}
		})
	}
}

// certificate gives a certificate with its key, as PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}
