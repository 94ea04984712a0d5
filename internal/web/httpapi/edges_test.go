package httpapi_test

import (
	"log/slog"
	"strings"
	"testing"

	"gatehouse/internal/test/webtest"
	"gatehouse/internal/web/httpapi"
)

func TestEdges(t *testing.T) {
	w := newAPI(t, slog.LevelDebug)
	w.setup.open = true
	options := httpapi.Options{Metrics: true}
	webtest.Table{
		Handler: w.handler(options), Routes: w.api.Routes(options), Metrics: w.metrics, Bearer: accessToken,
		Path: strings.NewReplacer("{station_token}", stationToken, "{lock_id}", "1", "{command_id}", string(command), "{id}", "1"),
		Bodies: map[string]string{
			"POST /v1/auth/login":      goodLogin,
			"POST /v1/auth/refresh":    `{"refreshToken":"` + refreshToken + `"}`,
			"POST /v1/auth/revoke":     `{"refreshToken":"` + refreshToken + `"}`,
			"POST /v1/auth/revoke-all": `{"refreshToken":"` + refreshToken + `"}`,
			"POST /local/v1/setup":     claim,
			"POST /local/v1/session":   goodLogin,
		},
	}.Check(t)
	for _, rt := range w.api.Guide("443") {
		if rt.Guard != nil || rt.JSON {
			t.Errorf("the plain port has %s", rt.Pattern)
		}
	}
}
