package gateway_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/health"
	"gatehouse/internal/test/gatewaytest"
)

// A key that everybody knows, such as the zeros of a power cut, or of the wrong length signs no
// access token: the gateway makes another, and reports it.
func TestGateway_damagedKey(t *testing.T) {
	for name, key := range map[string][]byte{
		"zeros": make([]byte, 32), "ones": bytes.Repeat([]byte{0xff}, 32), "letters": bytes.Repeat([]byte{'k'}, 32), "short": []byte("short"),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := gatewaytest.Configure(t)
			g := gatewaytest.Start(t, cfg)
			access, refresh := g.Login()
			claims := jwt.MapClaims{}
			if _, _, err := jwt.NewParser().ParseUnverified(access, claims); err != nil {
				t.Fatal(err)
			}
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(cfg.Data, "token.key"), key, 0o600); err != nil {
				t.Fatal(err)
			}
			g = gatewaytest.Run(t, cfg)
			forged, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(key)
			if err != nil {
				t.Fatal(err)
			}
			if a := g.Do(http.MethodGet, "/local/v1/stations", forged, nil); a.Status != http.StatusUnauthorized {
				t.Errorf("a forged token: %d", a.Status)
			}
			if a := g.Do(http.MethodPost, "/v1/auth/refresh", "", refreshBody(refresh)); a.Status != http.StatusOK {
				t.Errorf("refreshing: %d %s", a.Status, a.Body)
			}
			status, err := g.Admin.Status(t.Context())
			if err != nil || !slices.ContainsFunc(status.Conditions, func(c health.Condition) bool { return c.Code == health.KeyDamaged }) {
				t.Errorf("conditions %+v, %v; want key-damaged", status.Conditions, err)
			}
		})
	}
}
