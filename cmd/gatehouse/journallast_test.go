package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"

	"gatehouse/internal/web/adminapi/client"
)

// Records that are written while the last ones are looked for do not become part of them.
// With --follow they do.
func TestOnlyLast(t *testing.T) {
	for _, c := range []struct {
		last          uint64
		records       int
		follow        bool
		after, before uint64
	}{
		{last: 2, records: 10, after: 8, before: 11},
		{last: 2, records: 10, follow: true, after: 8},
		{last: 1500, records: 2000, after: 500, before: 2001},
		{last: 20, records: 10, after: 0, before: 11},
		{last: 20, records: 0, after: 0, before: 1},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			records := c.records
			gw := fakeGateway(t, func(w http.ResponseWriter, r *http.Request) {
				tail, _ := strconv.Atoi(r.FormValue("tail"))
				before, err := strconv.Atoi(r.FormValue("before"))
				if err != nil {
					before = records + 1
				}
				for seq := max(1, before-tail); seq < before; seq++ {
					_, _ = fmt.Fprintf(w, "{\"seq\":%d,\"time\":\"2026-11-21T08:00:00.000Z\",\"kind\":\"login\"}\n", seq)
				}
				records++
			})
			got, err := onlyLast(t.Context(), gw, client.JournalQuery{Follow: c.follow}, c.last)
			if err != nil || got.After != c.after || got.Before != c.before {
				t.Errorf("after %d and before %d, %v", got.After, got.Before, err)
			}
		})
	}
}

// fakeGateway returns a client of a gateway that answers like handler.
func fakeGateway(t *testing.T, handler http.HandlerFunc) *client.Client {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	s.Start()
	t.Cleanup(s.Close)
	gw := client.New(socket)
	t.Cleanup(gw.Close)
	return gw
}
