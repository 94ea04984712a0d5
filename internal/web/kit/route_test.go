package kit_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// Who has lost the right to a change while its body came makes none.
func TestRoute_revokedMeanwhile(t *testing.T) {
	k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	revoked, made := false, 0
	handler := k.Handler(false, []kit.Route{{
		Method: http.MethodPost, Pattern: "/change", JSON: true,
		Guard: func(*kit.Exchange) (by site.Actor, err error) {
			if revoked {
				err = fault.New(fault.Unauthenticated, "Token is invalid")
			}
			return by, err
		},
		Serve: func(x *kit.Exchange) error {
			made++
			return x.Encode(http.StatusOK, 1)
		},
	}})
	for _, meanwhile := range []bool{false, true} {
		body := io.MultiReader(strings.NewReader("{"), reading(func() { revoked = meanwhile }), strings.NewReader("}"))
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/change", body)
		req.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		handler.ServeHTTP(out, req)
		if want := map[bool]int{false: http.StatusOK, true: http.StatusUnauthorized}[meanwhile]; out.Code != want {
			t.Errorf("revoked meanwhile %t: %d %s, want %d", meanwhile, out.Code, out.Body, want)
		}
	}
	if made != 1 {
		t.Errorf("%d changes were made", made)
	}
}

// reading is a part of a body that is called when it is read, and is empty.
type reading func()

func (r reading) Read([]byte) (int, error) {
	r()
	return 0, io.EOF
}
