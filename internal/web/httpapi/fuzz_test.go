package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"gatehouse/internal/web/httpapi"
)

// FuzzBody: whatever the body of a login is, the answer is a proper one, and only a
// JSON object in UTF-8 with both fields as texts gets past 400.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		goodLogin, `{"email":"a","password":"b"}`, `{"email":"\ud800","password":"\u0000"}`, `{"email":1}`, `[]`, `{`, ``, ` `,
		`{"email":"a","email":{},"password":"b"}`, "\ufeff{}", "\xff", strings.Repeat("[", 50), `{"x":"\"[[","email":"a","password":"b"}`,
	} {
		f.Add([]byte(seed))
	}
	w := newAPI(f, 0)
	handler := w.handler(httpapi.Options{})
	f.Fuzz(func(t *testing.T, body []byte) {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/auth/login", bytes.NewReader(body))
		req.Host = "localhost"
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		got := response{rec.Code, rec.Header(), rec.Body.String()}
		checkAny(t, "POST", got)
		passed := got.status == 200 || got.status == 401
		if !passed && got.status != 400 && got.status != 413 {
			t.Errorf("%q: status %d", body, got.status)
		}
		var fields struct{ Email, Password string }
		sound := utf8.Valid(body) && json.Unmarshal(body, &fields) == nil && fields.Email != "" && fields.Password != ""
		if passed && !sound {
			t.Errorf("%q: let through", body)
		}
	})
}

// FuzzRequest: whatever request net/http makes of bytes, the answer is a proper one,
// and none says of another account's station what it does not say of no station.
func FuzzRequest(f *testing.F) {
	for _, c := range rawCases {
		if len(c.bytes) < 1000 {
			f.Add([]byte(c.bytes))
		}
	}
	for _, path := range []string{"/v1/stations/" + hiddenToken, "/v1/stations/%2e%2e/locks/1/unlock", "/v1/../x", "/local/v1/commands/x", "//"} {
		f.Add([]byte("GET " + path + " HTTP/1.1\r\nHost: 192.0.2.1\r\nAuthorization: Bearer " + accessToken + "\r\n\r\n"))
	}
	w := newAPI(f, 0)
	handler := w.handler(httpapi.Options{Metrics: true})
	f.Fuzz(func(t *testing.T, text []byte) {
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil || (strings.HasSuffix(req.URL.Path, "/events") && req.Method == http.MethodGet) {
			return // no request, or one that has no end
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req.WithContext(t.Context()))
		got := response{rec.Code, rec.Header(), rec.Body.String()}
		if got.status >= 300 && got.status < 400 {
			t.Errorf("%q: redirected to %s", text, rec.Header().Get("Location"))
		}
		method := http.MethodGet
		if req.Method == http.MethodHead {
			method = http.MethodHead // the recorder keeps the body that net/http leaves out
		}
		checkAny(t, method, got)
		if strings.Contains(got.body, "Vault") || (got.status == 500 && got.body != message("Internal error")) {
			t.Errorf("%q: %d %s", text, got.status, got.body)
		}
	})
}
