package httpapi_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"gatehouse/internal/web/httpapi"
)

// sink is a response that keeps nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) WriteHeader(int)             {}
func (s sink) Write(p []byte) (int, error) { return len(p), nil }

// bare is the least that a handler can do for the same response.
var bare = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, stationJSON)
})

func BenchmarkStation_handler(b *testing.B) {
	w := newAPI(b, slog.LevelInfo)
	handler := w.handler(httpapi.Options{})
	req := w.build(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken})
	out := sink{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(out, req)
	}
}

func BenchmarkUnlock_handler(b *testing.B) {
	w := newAPI(b, slog.LevelWarn)
	handler := w.handler(httpapi.Options{})
	req := w.build(request{method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock", bearer: accessToken})
	out := sink{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(out, req)
		w.unlocker.requests = w.unlocker.requests[:0]
	}
}

func BenchmarkStation_overTCP(b *testing.B) {
	w := newAPI(b, slog.LevelInfo)
	overTCP(b, w, w.handler(httpapi.Options{}))
}

func BenchmarkBare_overTCP(b *testing.B) {
	overTCP(b, newAPI(b, slog.LevelInfo), bare)
}

// overTCP sends the same request again and again on one connection.
func overTCP(b *testing.B, w *world, handler http.Handler) {
	w.serve(handler, unchanged)
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ask := []byte(readBytes + "Authorization: Bearer " + accessToken + "\r\n\r\n")
	text := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(ask); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(text, nil)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
