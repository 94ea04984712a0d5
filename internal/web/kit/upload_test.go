package kit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/kit"
)

const maxUpload = 1 << 20

// uploader is a server with one route that takes uploads.
type uploader struct {
	kit     *kit.Kit
	handler http.Handler
	revoked atomic.Bool
	store   func(io.Reader) error
}

func newUploader(store func(io.Reader) error) *uploader {
	u := &uploader{kit: kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)}), store: store}
	guard := func(*kit.Exchange) (site.Actor, error) {
		if u.revoked.Load() {
			return site.Actor{}, fault.New(fault.Unauthenticated, "Token is invalid")
		}
		return site.Actor{Account: "ada"}, nil
	}
	u.handler = u.kit.Handler(true, []kit.Route{{
		Method: http.MethodPut, Pattern: "/file", Guard: guard, Upload: true, MaxBody: maxUpload,
		Serve: func(x *kit.Exchange) error {
			if err := x.Receive(u.store); err != nil {
				return err
			}
			return x.Encode(http.StatusOK, "stored")
		},
	}})
	return u
}

// send sends a body over HTTP/1.1 and over HTTP/2, and returns the answers.
func (u *uploader) send(t *testing.T, body func() io.Reader) (answers []string) {
	t.Helper()
	for _, second := range []bool{false, true} {
		server := httptest.NewUnstartedServer(u.handler)
		server.Config = u.kit.NewServer(u.handler)
		server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = await.Patience, await.Patience
		server.EnableHTTP2 = second
		server.StartTLS()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/file", body())
		if err != nil {
			t.Fatal(err)
		}
		answer := "none"
		if resp, err := server.Client().Do(r); err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			answer = resp.Status[:3] + " " + strings.TrimSpace(string(text))
		}
		server.CloseClientConnections()
		server.Close()
		u.revoked.Store(false)
		answers = append(answers, answer)
	}
	return answers
}

func TestExchange_Receive(t *testing.T) {
	stored := make(chan string, 8)
	u := newUploader(func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err == nil {
			stored <- string(text)
		}
		return err
	})
	content := strings.Repeat("0123456789abcdef", maxUpload/16)
	for name, c := range map[string]struct {
		body func() io.Reader
		want string
	}{
		"whole":                  {func() io.Reader { return strings.NewReader(content) }, `200 "stored"`},
		"of unknown size":        {func() io.Reader { return io.MultiReader(strings.NewReader(content)) }, `200 "stored"`},
		"announced as too large": {func() io.Reader { return strings.NewReader(content + "x") }, `413 {"message":"The body is too large: 1024 KiB at most"}`},
		"too large":              {func() io.Reader { return io.MultiReader(strings.NewReader(content + "x")) }, `413 {"message":"The body is too large: 1024 KiB at most"}`},
	} {
		for _, got := range u.send(t, c.body) {
			if got != c.want {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	for range 4 {
		if text := <-stored; text != content {
			t.Errorf("%d bytes were stored", len(text))
		}
	}
}

// What store says is the answer.
func TestExchange_Receive_notStored(t *testing.T) {
	u := newUploader(func(io.Reader) error { return fault.New(fault.Unavailable, "There is no room") })
	for _, got := range u.send(t, func() io.Reader { return strings.NewReader("update") }) {
		if got != `503 {"message":"There is no room"}` {
			t.Error(got)
		}
	}
}

// An upload that waits for more ends with the rights of its caller, with the gateway and
// with its client; its store sees that it is not whole.
func TestExchange_Receive_interrupted(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(u *uploader, body *io.PipeWriter)
		want string
	}{
		"revoked": {func(u *uploader, _ *io.PipeWriter) { u.revoked.Store(true) }, `401 {"message":"Token is invalid"}`},
		"gone":    {func(_ *uploader, body *io.PipeWriter) { _ = body.CloseWithError(errors.New("unplugged")) }, "none"},
		"drained": {func(u *uploader, _ *io.PipeWriter) { u.kit.Drain() }, `503 {"message":"The gateway is being stopped"}`},
	} {
		var u *uploader
		var feed *io.PipeWriter
		ended := make(chan error, 2)
		u = newUploader(func(r io.Reader) error {
			_, err := io.ReadFull(r, make([]byte, 6))
			if err == nil {
				c.end(u, feed)
				_, err = r.Read(make([]byte, 1))
			}
			ended <- err
			return err
		})
		answers := u.send(t, func() io.Reader {
			body, end := io.Pipe()
			feed = end
			go func() { _, _ = end.Write([]byte("update")) }()
			t.Cleanup(func() { _ = end.Close() })
			return body
		})
		for _, got := range answers {
			if got != c.want {
				t.Errorf("%s: %s", name, got)
			}
			if err := <-ended; !fault.Is(err, fault.Invalid) || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: its store sees the end: %v", name, err)
			}
		}
	}
}

// What was read to the end counts for nothing when its caller has no rights any more.
func TestExchange_Receive_revokedAtTheEnd(t *testing.T) {
	var u *uploader
	u = newUploader(func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		u.revoked.Store(true)
		return err
	})
	for _, got := range u.send(t, func() io.Reader { return strings.NewReader("update") }) {
		if got != `401 {"message":"Token is invalid"}` {
			t.Error(got)
		}
	}
}

// Neither a silent client nor a disk that hangs holds an upload for ever.
func TestExchange_Receive_silent(t *testing.T) {
	for name, c := range map[string]struct {
		store func(io.Reader, chan struct{}) error
		after time.Duration
	}{
		"client": {func(r io.Reader, _ chan struct{}) error { _, err := io.Copy(io.Discard, r); return err }, 32 * time.Second},
		"disk":   {func(_ io.Reader, disk chan struct{}) error { <-disk; return nil }, 32 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			disk := make(chan struct{})
			body, end := io.Pipe()
			u := newUploader(func(r io.Reader) error { return c.store(r, disk) })
			w, began := httptest.NewRecorder(), time.Now()
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "/file", body)
			if err != nil {
				t.Fatal(err)
			}
			u.handler.ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest || time.Since(began) > c.after {
				t.Errorf("%s: %d %s after %s", name, w.Code, w.Body, time.Since(began))
			}
			close(disk)
			_ = end.Close()
			synctest.Wait()
		})
	}
}
