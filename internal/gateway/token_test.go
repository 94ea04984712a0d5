package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// The streams of an integration token end with its removal, and say why; another token
// with the same rights is not affected.
func TestGateway_tokenStreamsEnd(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Configure(t))
	station := g.Enrol(1042).StationToken
	var streams []io.Reader
	var kept adminapi.IssuedToken
	for _, name := range []string{"removed", "kept"} {
		issued, err := g.Admin.AddToken(t.Context(), adminapi.NewToken{Name: name, Scopes: site.Scope{UnlockAll: true}})
		if err != nil {
			t.Fatal(err)
		}
		kept = issued
		for _, path := range []string{"/local/v1/watch", "/local/v1/stations/" + station + "/events"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.HTTP+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+issued.Text)
			resp, err := http.DefaultClient.Do(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s of %s: %v", path, name, err)
			}
			defer func() { _ = resp.Body.Close() }()
			if name == "removed" {
				streams = append(streams, resp.Body)
			}
		}
	}
	if err := g.Admin.RemoveToken(t.Context(), "removed"); err != nil {
		t.Fatal(err)
	}
	for i, stream := range streams {
		text, err := io.ReadAll(stream) // until it ends
		if err != nil || !strings.Contains(string(text), `"stationId":1042`) {
			t.Errorf("stream %d: %q, %v", i, text, err)
		}
		if watch := i == 0; watch && !strings.HasSuffix(string(text), `{"message":"Token is invalid"}`+"\n") {
			t.Errorf("the stream does not say why it ended: %q", text)
		}
	}
	if a := g.Do(http.MethodGet, "/v1/stations/"+station, kept.Text, nil); a.Status != http.StatusOK {
		t.Errorf("the other token: %d", a.Status)
	}
}
