package firstboot_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const examplePath = "../../../configs/gatehouse-site.example.toml"

// The example is right, as it is shipped and with every line in use.
func TestRun_example(t *testing.T) {
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`(?m)^#(\S)`).ReplaceAllString(string(text), "$1")
	for _, public := range []string{"at least eight characters", "the password that the broker knows", "JBSWY3DPEHPK3PXPJBSWY3DPEH", "the-token-that-apps-have-for-it"} {
		if !strings.Contains(whole, `"`+public+`"`) {
			t.Errorf("the example does not have %q", public)
		}
		whole = strings.ReplaceAll(whole, public, "own-"+strings.ReplaceAll(public, " ", "-"))
	}
	if strings.Count(whole, "#") > strings.Count(string(text), "#")-10 {
		t.Error("hardly any line was taken into use")
	}
	for name, text := range map[string]string{"as shipped": string(text), "every line": whole} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.write("boot/gatehouse-site.toml", text)
			b.write("boot/cleaning.password", "one-line-of-a-password\n")
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
			if used != (b.accounts["cleaning@example.test"] == "one-line-of-a-password") || used != (b.config.TLS.Certificate != "") || used != (b.config.Cloud.Password == "own-the-password-that-the-broker-knows") || used == b.exists("boot/cleaning.password") {
				t.Error("what stands in the lines was not used, or was without being in use")
			}
		})
	}
}

// What is in the examples is known to everyone, and no secret of a board.
func TestRun_publicSecrets(t *testing.T) {
	text, err := os.ReadFile("../../../configs/site.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	inUse := regexp.MustCompile(`(?m)^#((?:password|secret|token|username) = |\[cloud\])`).ReplaceAllString(string(own), "$1")
	indented := regexp.MustCompile(`(?m)^(password|secret|token) = (.*)\n`).ReplaceAllString(string(text), "\t\"$1\"=$2\r\n")
	inline := "account = [{ email = 'a@example.test', password = 'example-porter-password' }]"
	for text, want := range map[string]int{string(text): 6, inUse: 4, indented: 6, inline: 1} {
		b := newBoard(t)
		b.write("boot/gatehouse-site.toml", text)
		before := b.files()
		out, err := b.run()
		if err == nil || len(out.Problems) != want || len(b.accounts) > 0 {
			t.Errorf("got %v, want %d problems", err, want)
		}
		lines := strings.Split(text, "\n")
		for _, p := range out.Problems {
			what := regexp.MustCompile(`password|secret|token`).FindString(lines[p.Line-1])
			if p.Text != "this "+what+" is that of the example: choose your own, or leave the line out" {
				t.Errorf("line %d, %s: %s", p.Line, what, p.Text)
			}
		}
		after := b.files()
		delete(after, "boot/gatehouse-result.txt")
		if !reflect.DeepEqual(before, after) {
			t.Error("something was changed")
		}
	}
}

// certificate returns a certificate with its key, as PEM.
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
