package adminapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/board/updates"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// updater is a board that runs version 1.2.3, and notes what it is asked for.
type updater struct {
	mu      sync.Mutex
	status  site.UpdateStatus
	refuses error
	orders  []updates.Order
	by      []site.Actor
}

func newUpdater() *updater {
	return &updater{status: site.UpdateStatus{
		Image: true, Family: "gatehouse-arm64", Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Default: "a",
		Other: site.SlotStatus{Slot: "b"}, Phase: site.UpdateIdle,
	}}
}

func (u *updater) Status() site.UpdateStatus { return u.status }

func (u *updater) Check(updates.Order) error { return u.refuses }

func (u *updater) Request(by site.Actor, o updates.Order) (site.CommandID, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.orders, u.by = append(u.orders, o), append(u.by, by)
	if !o.Permitted() {
		return "id", fault.New(fault.Forbidden, "not permitted")
	}
	return "id", u.refuses
}

func (u *updater) asked() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.orders)
}

// shelf keeps an upload in memory. It calls half after the first byte, and whole after the last.
type shelf struct {
	mu        sync.Mutex
	half      func()
	whole     func()
	fails     error
	stored    string
	size      int64
	discarded int
}

func (s *shelf) Store(content io.Reader, size int64) error {
	first := make([]byte, 1)
	if _, err := io.ReadFull(content, first); err != nil {
		return err
	}
	if s.half != nil {
		s.half()
	}
	rest, err := io.ReadAll(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = s.fails
	}
	if err == nil {
		s.stored, s.size = string(first)+string(rest), size
		if s.whole != nil {
			s.whole()
		}
	}
	return err
}

func (s *shelf) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded++
}

const idle = `{"image":true,"family":"gatehouse-arm64","running":{"slot":"a","version":"1.2.3"},"default":"a","other":{"slot":"b","version":""},"phase":"idle",`

// told is the answer while nothing goes on.
func (h *house) told() string {
	h.t.Helper()
	got := h.do("GET", "/admin/v1/update", "")
	if got.status != 200 || !strings.HasPrefix(got.body, idle+`"sentences":[`) {
		h.t.Errorf("answered %d %s", got.status, got.body)
	}
	return strings.TrimSpace(got.body)
}

func TestHandler_update(t *testing.T) {
	h := open(t)
	told := h.told()
	sum := strings.Repeat("ab", 32)
	h.want(h.do("POST", "/admin/v1/update", `{"url":"https://example.test/x.update","sha256":"`+sum+`","at":"2026-11-24T03:00:00+01:00"}`), 202, told)
	h.want(h.do("POST", "/admin/v1/update/rollback", ""), 202, told)
	h.want(h.do("POST", "/admin/v1/update/withdraw", ""), 202, told)
	h.want(h.do("POST", "/admin/v1/update", `{"url":""}`), 400, `{"message":"Choose a file, or state the https address of an update"}`)
	h.want(h.do("POST", "/admin/v1/update", `{"address":"x"}`), 400, `{"message":"Unknown field \"address\""}`)
	want := []updates.Order{
		{URL: "https://example.test/x.update", SHA256: sum, At: time.Date(2026, 11, 24, 2, 0, 0, 0, time.UTC)},
		{Rollback: true},
	}
	if len(h.updates.orders) != 3 || !h.updates.orders[2].Withdraw || h.updates.orders[0].URL != want[0].URL || h.updates.orders[0].SHA256 != sum ||
		!h.updates.orders[0].At.Equal(want[0].At) || !h.updates.orders[1].Rollback || !h.updates.by[0].Admin {
		t.Errorf("asked for %+v by %+v", h.updates.orders, h.updates.by)
	}
	h.updates.refuses = fault.New(fault.Conflict, "An update is in progress")
	h.want(h.do("POST", "/admin/v1/update/rollback", ""), 409, `{"message":"An update is in progress"}`)
}

// put uploads through the web's door with a token.
func (h *house) put(query, token string, body io.Reader) answer {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), http.MethodPut, "/admin/v1/update/file"+query, body)
	r.Header.Set("Content-Type", "application/octet-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	return h.send(adminapi.Web, r)
}

func TestHandler_uploadUpdate(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	h.addAccount(porter, false)
	token, told := h.token(chief), h.told()
	h.want(h.put("", h.token(porter), strings.NewReader("update")), 403, `{"message":"Forbidden: this account is not an administrator"}`)
	h.want(h.put("?at=tonight", token, strings.NewReader("update")), 400, `{"message":"\"at\" is a time like 2026-01-01T00:00:00Z"}`)
	h.want(h.put("?at=2026-11-24T02:00:00Z&at=2026-11-24T02:00:00Z", token, strings.NewReader("update")), 400, `{"message":"The query knows \"at\", once"}`)
	h.want(h.put("?sha256=x", token, strings.NewReader("update")), 400, `{"message":"The query knows \"at\", once"}`)
	h.want(h.put("", token, http.NoBody), 400, `{"message":"The file is empty"}`)
	if h.uploads.stored != "" || h.updates.asked() != 0 {
		t.Errorf("stored %q, asked %d times", h.uploads.stored, h.updates.asked())
	}
	h.want(h.put("?at=2026-11-24T02:00:00Z", token, strings.NewReader("update")), 202, told)
	if o := h.updates.orders[0]; h.uploads.stored != "update" || h.uploads.size != 6 || !o.File || o.At.Hour() != 2 || h.updates.by[0].Name != chief {
		t.Errorf("stored %q of %d, asked for %+v by %+v", h.uploads.stored, h.uploads.size, o, h.updates.by)
	}
	h.want(h.put("?at=", token, strings.NewReader("update")), 202, told)
	h.uploads.fails = fault.New(fault.Unavailable, "There is no room")
	h.want(h.put("", token, strings.NewReader("update")), 503, `{"message":"There is no room"}`)
	h.updates.refuses = fault.New(fault.Conflict, "An update is in progress")
	h.want(h.put("", token, &untouched{t}), 409, `{"message":"An update is in progress"}`)
	if h.updates.asked() != 2 {
		t.Errorf("asked %d times", h.updates.asked())
	}
}

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u *untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// A larger upload is refused by what it announces.
func TestHandler_uploadUpdate_tooLarge(t *testing.T) {
	h := open(t)
	r := httptest.NewRequestWithContext(adminapi.PeerContext(t.Context(), 0, 0, 1, adminapi.NoGroup), http.MethodPut, "/admin/v1/update/file", &untouched{t})
	r.ContentLength = 512<<20 + 1
	h.want(h.send(adminapi.Socket, r), 413, `{"message":"The body is too large: 524288 KiB at most"}`)
}

// While one is uploaded, everyone sees how far it is, and another one is refused. An upload
// whose order is refused in the end is discarded.
func TestHandler_uploadUpdate_underWay(t *testing.T) {
	h := open(t)
	h.uploads.half = func() {
		got := h.do("GET", "/admin/v1/update", "").body
		if !strings.Contains(got, `"phase":"fetching","percent":16,`) {
			t.Errorf("meanwhile: %s", got)
		}
		second := httptest.NewRequestWithContext(adminapi.PeerContext(t.Context(), 0, 0, 1, adminapi.NoGroup), http.MethodPut, "/admin/v1/update/file", strings.NewReader("other"))
		h.want(h.send(adminapi.Socket, second), 429, `{"message":"An update is being uploaded already"}`)
		h.updates.mu.Lock()
		defer h.updates.mu.Unlock()
		h.updates.refuses = fault.New(fault.Conflict, "An update is in progress")
	}
	h.want(h.do("PUT", "/admin/v1/update/file", "update"), 409, `{"message":"An update is in progress"}`)
	if h.uploads.discarded != 1 {
		t.Errorf("discarded %d times", h.uploads.discarded)
	}
	h.told()
}

// An upload whose sender has lost the right to it while its end was stored is discarded.
func TestHandler_uploadUpdate_revokedLate(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	token := h.token(chief)
	h.uploads.whole = func() { h.must(h.access.SetAdmin(t.Context(), site.Actor{}, chief, false)) }
	if got := h.put("", token, strings.NewReader("update")); got.status != 401 || h.updates.asked() != 0 || h.uploads.discarded != 1 {
		t.Errorf("answered %d %s, asked %d times, discarded %d times", got.status, got.body, h.updates.asked(), h.uploads.discarded)
	}
}

// An upload ends with the session, the account or the rights of who sends it, and asks
// for nothing.
func TestHandler_uploadUpdate_revoked(t *testing.T) {
	for name, end := range map[string]func(h *house) error{
		"removed": func(h *house) error { return h.access.RemoveAccount(context.Background(), site.Actor{}, chief) },
		"demoted": func(h *house) error { return h.access.SetAdmin(context.Background(), site.Actor{}, chief, false) },
		"signed out": func(h *house) error {
			_, err := h.access.RevokeAccount(context.Background(), site.Actor{}, chief)
			return err
		},
	} {
		h := open(t)
		h.addAccount(chief, true)
		h.uploads.half = func() { h.must(end(h)) }
		body, feed := io.Pipe()
		go func() { _, _ = io.WriteString(feed, "update") }()
		server := httptest.NewServer(h.handler(adminapi.Web))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/admin/v1/update/file", body)
		h.must(err)
		r.Header.Set("Authorization", "Bearer "+h.token(chief))
		resp, err := server.Client().Do(r)
		h.must(err)
		h.must(errors.Join(resp.Body.Close(), feed.Close()))
		if resp.StatusCode != http.StatusUnauthorized || h.updates.asked() != 0 || h.uploads.stored != "" {
			t.Errorf("%s: answered %d, asked %d times, stored %q", name, resp.StatusCode, h.updates.asked(), h.uploads.stored)
		}
		server.CloseClientConnections()
		server.Close()
	}
}
