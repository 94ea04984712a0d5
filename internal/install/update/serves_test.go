package update_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/install/update"
	"gatehouse/internal/web/adminapi"
)

func TestServes(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	right := strings.ToUpper(fmt.Sprintf("%x", sha256.Sum256(server.Certificate().Raw)))
	address := strings.TrimPrefix(server.URL, "https://")
	_, port, _ := strings.Cut(address, ":")
	for name, c := range map[string]struct {
		listener, address, fingerprint string
		fails                          bool
	}{
		"its certificate":     {"https", address, right, false},
		"on every address":    {"https", "[::]:" + port, right, false},
		"on every IPv4":       {"https", "0.0.0.0:" + port, right, false},
		"another certificate": {"https", address, strings.Repeat("00:", 31) + "00", true},
		"no answer":           {"https", "127.0.0.1:1", right, true},
		"without HTTPS":       {"http", "127.0.0.1:1", right, false},
	} {
		s := adminapi.Status{
			Listeners:   []adminapi.Listener{{Name: c.listener, Address: c.address}},
			Certificate: &adminapi.CertificateStatus{Fingerprint: c.fingerprint},
		}
		if err := update.Serves(t.Context(), s); (err != nil) != c.fails || err != nil && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
