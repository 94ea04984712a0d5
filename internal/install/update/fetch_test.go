package update_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/update"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
)

// server delivers an update and can cut its answers.
type server struct {
	raw      []byte
	etag     string
	plain    bool  // answers every request whole
	chunked  bool  // does not say how much it is
	cuts     int   // answers that are cut
	after    int64 // after so many bytes
	requests []string
	sent     atomic.Int64
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, r.Header.Get("Range"))
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	out := &cutWriter{ResponseWriter: w, sent: &s.sent, left: -1}
	if s.cuts > 0 {
		s.cuts--
		out.left = s.after
	}
	switch {
	case s.chunked:
		w.(http.Flusher).Flush()
		_, _ = out.Write(s.raw)
	case s.plain:
		w.Header().Set("Content-Length", fmt.Sprint(len(s.raw)))
		_, _ = out.Write(s.raw)
	default:
		http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(s.raw))
	}
}

// cutWriter aborts the connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	sent *atomic.Int64
	left int64 // -1: all
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left >= 0 && int64(len(b)) > w.left {
		_, _ = w.ResponseWriter.Write(b[:w.left])
		w.sent.Add(w.left)
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	if w.left >= 0 {
		w.left -= int64(len(b))
	}
	w.sent.Add(int64(len(b)))
	return w.ResponseWriter.Write(b)
}

// serve returns the address of a server.
func serve(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/gatehouse.update"
}

func (b *board) fetch(address string) error {
	_, err := b.updater().Update(b.t.Context(), update.Order{From: update.Source{URL: address}})
	return err
}

// big is an update of about a megabyte.
func (b *board) big() []byte { return b.genuine("1.3.0") }

// A download is in progress from the first, however long a server takes to answer.
func TestFetch_silent(t *testing.T) {
	b := newBoard(t)
	b.settle()
	ctx, cancel := context.WithCancel(t.Context())
	address := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if s := b.status(); s.Phase != site.UpdateFetching {
			t.Errorf("the status is %+v", s)
		}
		cancel()
	}))
	if _, err := b.updater().Update(ctx, update.Order{From: update.Source{URL: address}}); err == nil || ctx.Err() == nil {
		t.Error(err)
	}
}

func TestFetch_url(t *testing.T) {
	for name, s := range map[string]*server{
		"with an ETag":    {etag: `"one"`},
		"without one":     {},
		"without a range": {plain: true},
		"without a size":  {chunked: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			s.raw = b.big()
			address := serve(t, s)
			sum := updatefile.Sum(sha256.Sum256(s.raw))
			if _, err := b.updater().Update(t.Context(), update.Order{From: update.Source{URL: address}, SHA256: &sum}); err != nil {
				t.Fatal(err)
			}
			b.holds("1.3.0")
			for _, name := range []string{"download", "download.json"} {
				if _, err := os.Stat(b.Path("var/lib/gatehouse-update/" + name)); err == nil {
					t.Errorf("%s is left", name)
				}
			}
			if b.seen[0].Phase != site.UpdateFetching {
				t.Errorf("the first status is %+v", b.seen[0])
			}
		})
	}
}

// A download that is cut goes on where it was, in the same process and in another one.
func TestFetch_resumes(t *testing.T) {
	b := newBoard(t)
	s := &server{raw: b.big(), etag: `"one"`, cuts: 3, after: 200_000}
	if err := b.fetch(serve(t, s)); err != nil {
		t.Fatal(err)
	}
	b.holds("1.3.0")
	if len(s.requests) != 4 || s.requests[0] != "" || s.requests[3] == "" {
		t.Errorf("it asked for %q", s.requests)
	}
	if most := int64(len(s.raw)) + 100_000; s.sent.Load() > most {
		t.Errorf("%d bytes were sent, of %d", s.sent.Load(), len(s.raw))
	}
}

func TestFetch_resumesLater(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(s *server)
		resumed bool
	}{
		"the same file":        {func(*server) {}, true},
		"another file":         {func(s *server) { s.etag = `"two"` }, false},
		"a server of no range": {func(s *server) { s.plain = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			s := &server{raw: b.big(), etag: `"one"`, cuts: 1, after: 500_000}
			address := serve(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			b.onShow = func(v site.UpdateStatus) {
				if v.Phase == site.UpdateFetching && v.Percent >= 30 {
					cancel()
				}
			}
			if _, err := b.updater().Update(ctx, update.Order{From: update.Source{URL: address}}); err == nil {
				t.Fatal("it was not interrupted")
			}
			b.onShow = nil
			c.change(s)
			s.cuts, s.requests = 0, nil
			s.sent.Store(0)
			if err := b.fetch(address); err != nil {
				t.Fatal(err)
			}
			b.holds("1.3.0")
			if len(s.requests) != 1 || s.requests[0] == "" {
				t.Errorf("it asked for %q", s.requests)
			}
			if resumed := s.sent.Load() < int64(len(s.raw)); resumed != c.resumed {
				t.Errorf("%d bytes of %d were sent again", s.sent.Load(), len(s.raw))
			}
		})
	}
}

func TestFetch_urlRefuses(t *testing.T) {
	first := newBoard(t)
	good, older := first.big(), first.genuine("1.2.2")
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		kind    fault.Kind
		want    string
	}{
		"not found":    {http.NotFound, fault.Invalid, "answers with status 404: is the address right?"},
		"a web page":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, fault.Invalid, "no update of Gatehouse"},
		"a huge body":  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "629145600") }, fault.Invalid, "has more than"},
		"an older one": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(older) }, fault.Invalid, "older than 1.2.3"},
		"a damaged one": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append(bytes.Clone(good[:len(good)-1]), 'x'))
		}, fault.Invalid, "is damaged"},
		"a cut one": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good[:len(good)/2]) }, fault.Invalid, "is cut off"},
		"a loop":    {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, fault.Unavailable, "redirects more than ten times"},
		"another scheme": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/shadow", http.StatusFound)
		}, fault.Unavailable, "unsupported protocol scheme"},
		"a redirect of much text": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://%"+strings.Repeat("x", 200_000))
			w.WriteHeader(http.StatusFound)
		}, fault.Unavailable, "…): try again"},
		"a server's fault": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, fault.Unavailable, "does not deliver the update (it answers with status 502): try again"},
		"an endless one": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "-1")
			_, _ = w.Write(good)
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<20))
		}, fault.Invalid, "so it is not the update"},
		"an endless page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "-1")
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<20))
		}, fault.Invalid, "no update of Gatehouse"},
		"an endless body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "400000000")
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<20))
		}, fault.Invalid, "no update of Gatehouse"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.trust(first.key)
			before := b.running()
			synctest.Test(t, func(t *testing.T) { // the pauses between attempts take no time
				b.http = func(cfg *update.Config) { cfg.HTTP = handled(c.handler) }
				address := "https://user:hunter2@example.test/gatehouse.update?token=hunter2"
				_, err := b.updater().Update(t.Context(), update.Order{From: update.Source{URL: address}})
				if !fault.Is(err, c.kind) || !strings.Contains(fault.Sentence(err), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(fmt.Sprintf("%+v", b.seen), "hunter2") {
					t.Errorf("the password is in %v", err)
				}
			})
			b.untouched(before)
			b.cannotStart()
			if s := b.status(); s.Last == nil || len(s.Last.Reason) > 1000 {
				t.Errorf("the status is %+v, %.2000v", s, s.Last)
			}
			if _, err := os.Stat(b.Path("var/lib/gatehouse-update/download")); err == nil && c.kind == fault.Invalid {
				t.Error("the download is left")
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// handled is a transport without a network, to a server that wants the password.
type handled http.HandlerFunc

// RoundTrip implements [http.RoundTripper].
func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, errors.New("unsupported protocol scheme")
	}
	w := httptest.NewRecorder()
	if user, password, _ := r.BasicAuth(); r.URL.User != nil && (user != "user" || password != "hunter2") {
		w.WriteHeader(http.StatusUnauthorized)
	} else {
		h(w, r)
	}
	response := w.Result()
	if response.Header.Get("Content-Length") == "-1" {
		response.ContentLength = -1
	}
	response.Request = r
	return response, nil
}

// delivering is a transport without a network that delivers an update whole.
func delivering(raw []byte, requests *int) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		*requests++
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)), Request: r}, nil
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// drip delivers a body in pieces of some bytes with a pause before each; after limit
// bytes it stalls until the request ends.
type drip struct {
	ctx   context.Context
	body  *bytes.Reader
	piece int
	pause time.Duration
	limit int
}

func (d *drip) Read(b []byte) (int, error) {
	if d.limit == 0 {
		<-d.ctx.Done()
		return 0, d.ctx.Err()
	}
	select {
	case <-time.After(d.pause): // in a bubble
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	d.limit--
	return d.body.Read(b[:min(len(b), d.piece)])
}

func (*drip) Close() error { return nil }

// dripping serves an update slowly; stalls says how many answers stall after half.
func dripping(raw []byte, stalls int, requests *int) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		*requests++
		from := int64(0)
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		d := &drip{ctx: r.Context(), body: bytes.NewReader(raw[from:]), piece: 10_000, pause: 50 * time.Second, limit: -1}
		if *requests <= stalls {
			d.limit = 20
		}
		response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: d, ContentLength: int64(len(raw)) - from, Request: r}
		if from > 0 {
			response.StatusCode = http.StatusPartialContent
			response.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(raw)-1, len(raw)))
		}
		return response, nil
	}
}

// A link of 200 bytes a second is slow, and no fault.
func TestFetch_slowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, requests := newBoard(t), 0
		raw := b.big()
		b.http = func(cfg *update.Config) { cfg.HTTP = dripping(raw, 0, &requests) }
		if err := b.fetch("https://example.test/x"); err != nil || requests != 1 {
			t.Errorf("%v, after %d requests", err, requests)
		}
	})
}

// A server that stalls is asked again for the rest; one that always does is given up.
func TestFetch_stalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, requests := newBoard(t), 0
		raw := b.big()
		b.http = func(cfg *update.Config) { cfg.HTTP = dripping(raw, 3, &requests) }
		if err := b.fetch("https://example.test/x"); err != nil || requests != 4 {
			t.Errorf("%v, after %d requests", err, requests)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b, requests := newBoard(t), 0
		b.http = func(cfg *update.Config) {
			cfg.HTTP = roundTrip(func(r *http.Request) (*http.Response, error) {
				requests++
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
		}
		began := time.Now()
		err := b.fetch("https://u:hunter2@example.test/x?hunter2")
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Sentence(err), "example.test does not deliver the update (almost nothing has arrived for a minute): try again") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > 15*time.Minute || requests != 8 {
			t.Errorf("it took %v and %d requests", took, requests)
		}
	})
}

// A server that never gets to the end, and begins anew each time, does not wear the card out.
func TestFetch_beginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, requests := newBoard(t), 0
		raw := b.big()
		b.http = func(cfg *update.Config) {
			cfg.HTTP = roundTrip(func(r *http.Request) (*http.Response, error) {
				if requests++; requests > 100 {
					return nil, errors.New("no end")
				}
				some := io.LimitReader(bytes.NewReader(raw), int64(300_000+requests%2*100_000))
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(some), ContentLength: int64(len(raw)), Request: r}, nil
			})
		}
		if err := b.fetch("https://example.test/x"); !fault.Is(err, fault.Unavailable) || requests > 20 {
			t.Errorf("%v, after %d requests", err, requests)
		}
	})
}

// Where a redirect leads, nothing of the address is heard.
func TestFetch_redirectSecret(t *testing.T) {
	b := newBoard(t)
	raw := b.big()
	b.http = func(cfg *update.Config) {
		cfg.HTTP = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "example.test" {
				return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://other.test/y"}}, Body: http.NoBody, Request: r}, nil
			}
			if strings.Contains(fmt.Sprint(r.Header), "hunter2") {
				t.Errorf("the other host gets %v", r.Header)
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)), Request: r}, nil
		})
	}
	if err := b.fetch("https://user:hunter2@example.test/x?token=hunter2"); err != nil {
		t.Error(err)
	}
}

// A download that is given up leaves the card once the update came in another way.
func TestFetch_abandonedDownload(t *testing.T) {
	b := newBoard(t)
	s := &server{raw: b.big(), cuts: 1, after: 500_000}
	ctx, cancel := context.WithCancel(t.Context())
	b.onShow = func(v site.UpdateStatus) {
		if v.Percent >= 30 {
			cancel()
		}
	}
	if _, err := b.updater().Update(ctx, update.Order{From: update.Source{URL: serve(t, s)}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not interrupted: %v", err)
	}
	if s := b.status(); s.Last == nil || s.Last.Outcome != site.UpdateFailed || !strings.Contains(s.Last.Reason, "interrupted") {
		t.Errorf("the status is %+v", s.Last)
	}
	b.onShow = nil
	b.Read("var/lib/gatehouse-update/download")
	if err := b.install(b.file("1.3.0")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"download", "download.json"} {
		if _, err := os.Stat(b.Path("var/lib/gatehouse-update/" + name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// A redirect from https to http is refused before anything is sent there.
func TestFetch_redirectDowngrade(t *testing.T) {
	b := newBoard(t)
	b.http = func(cfg *update.Config) {
		cfg.HTTP = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Scheme != "https" {
				t.Error("it followed")
			}
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"http://example.test/y"}}, Body: http.NoBody, Request: r}, nil
		})
	}
	if err := b.fetch("https://example.test/x"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("%v", err)
	}
}

// A request of the gateway with a URL is carried out as the administrator's is.
func TestFetch_inRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		b.settle()
		raw, requests := b.big(), 0
		b.http = func(cfg *update.Config) { cfg.HTTP = delivering(raw, &requests) }
		b.ask(slot.Request{Action: slot.Update, URL: "https://example.test/x", SHA256: fmt.Sprintf("%x", sha256.Sum256(raw))})
		if err := b.service(time.Minute); err != nil || b.restarts != 1 || requests != 1 {
			t.Errorf("%v, %d restarts, %d requests", err, b.restarts, requests)
		}
		b.holds("1.3.0")
	})
}

// A server that would deliver for days is given up, and says what to do.
func TestFetch_tooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := newBoard(t), time.Now()
		raw := b.big()
		b.http = func(cfg *update.Config) {
			cfg.HTTP = roundTrip(func(r *http.Request) (*http.Response, error) {
				from := int64(0)
				_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
				body := &drip{ctx: r.Context(), body: bytes.NewReader(raw[from:]), piece: 8 << 10, pause: 59 * time.Second, limit: 1}
				status := map[bool]int{false: http.StatusOK, true: http.StatusPartialContent}[from > 0]
				head := http.Header{"Content-Range": {fmt.Sprintf("bytes %d-%d/%d", from, len(raw)-1, len(raw))}}
				return &http.Response{StatusCode: status, Header: head, Body: body, ContentLength: int64(len(raw)) - from, Request: r}, nil
			})
		}
		err := b.fetch("https://example.test/x")
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "within 4 hours: run it again, which continues at ") || time.Since(began) > 5*time.Hour {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
	})
}

// What the server has withdrawn is not installed from an earlier download.
func TestFetch_withdrawn(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone, http.StatusForbidden} {
		b, there := newBoard(t), true
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !there {
				w.WriteHeader(status)
				return
			}
			w.Header().Set("ETag", `"1"`)
			http.ServeFile(w, r, b.file("1.3.0"))
		}))
		if _, err := b.updater().Update(t.Context(), update.Order{From: update.Source{URL: url}, Check: true}); err != nil {
			t.Fatal(err)
		}
		there = false
		if err := b.fetch(url); !fault.Is(err, fault.Invalid) || b.oneShot() != "" {
			t.Errorf("%d: %v, one shot %q", status, err, b.oneShot())
		}
	}
}

// Where a server redirects to may hold a password, also where it cannot be read.
func TestFetch_unreadableAnswers(t *testing.T) {
	for _, where := range []string{"https://other.test/x?sig=hunter2%zz\x7f", "http://[hunter2@x/", ":hunter2?"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBoard(t)
			b.http = func(cfg *update.Config) {
				cfg.HTTP = roundTrip(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {where}}, Body: http.NoBody, Request: r}, nil
				})
			}
			err := b.fetch("https://example.test/x")
			if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(b.status().Last.Reason, "hunter2") {
				t.Errorf("%q: %v; %+v", where, err, b.status().Last)
			}
		})
	}
}
