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

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/adminapi"
)

// parcel is a backup that is given in two pieces; between them it waits for more, where
// there is such a channel.
type parcel struct {
	text   string
	more   chan struct{}
	fails  error // of what follows the first piece
	taken  error // of making the backup
	mu     sync.Mutex
	closed int
}

func (h *house) takeBackup(_ context.Context, by site.Actor) (adminapi.Parcel, error) {
	h.takers = append(h.takers, by)
	if h.parcel.taken != nil {
		return nil, h.parcel.taken
	}
	return h.parcel, nil
}

func (h *house) takeSealedBackup(ctx context.Context, by site.Actor, passphrase site.Secret) (adminapi.Parcel, error) {
	if passphrase != "four words nobody knows" {
		return nil, fault.New(fault.Invalid, "The passphrase is too short")
	}
	return h.takeBackup(ctx, by)
}

func (h *house) restart(by site.Actor) error {
	h.restarters = append(h.restarters, by)
	return h.restarts
}

func (p *parcel) Write(w io.Writer) error {
	half := len(p.text) / 2
	if _, err := io.WriteString(w, p.text[:half]); err != nil {
		return err
	}
	if p.more != nil {
		p.more <- struct{}{}
		<-p.more
	}
	if p.fails != nil {
		return p.fails
	}
	_, err := io.WriteString(w, p.text[half:])
	return err
}

func (p *parcel) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
	return nil
}

func (p *parcel) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed == 1
}

func TestClient_Backup(t *testing.T) {
	h := open(t)
	c := h.serve()
	for range 2 {
		h.parcel.closed = 0
		body, err := c.Backup(t.Context())
		h.must(err)
		text, err := io.ReadAll(body)
		h.must(errors.Join(err, body.Close()))
		await.Until(t, "the backup is closed", h.parcel.isClosed)
		if string(text) != h.parcel.text {
			t.Errorf("got %q", text)
		}
	}
	if len(h.takers) != 2 || !h.takers[0].Admin || !strings.HasPrefix(h.takers[0].Name, "uid ") {
		t.Errorf("taken by %+v", h.takers)
	}
}

// A console that receives its backup slowly does not keep root's scheduled one waiting.
func TestHandler_backup_apart(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	h.parcel.more = make(chan struct{})
	slow := make(chan answer, 1)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/v1/backup", strings.NewReader(`{"passphrase":"four words nobody knows","password":"correct horse battery"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+h.token(chief))
	go func() { slow <- h.send(adminapi.Web, r) }()
	held := h.parcel
	<-held.more
	h.parcel = &parcel{text: "another"}
	if got := h.do("GET", "/admin/v1/backup", ""); got.status != 200 || got.body != "another" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	held.more <- struct{}{}
	if got := <-slow; got.status != 200 || got.body != held.text {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// What is in clear text goes to no other machine, not even for an administrator.
func TestHandler_backup_notOverTheWeb(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	got := h.send(adminapi.Web, h.web("GET", "/admin/v1/backup", "Bearer "+h.token(chief)))
	h.want(got, 405, `{"message":"Method not allowed"}`)
	if len(h.takers) != 0 {
		t.Error("a backup was taken")
	}
}

// An encrypted one does, to an administrator.
func TestHandler_sealedBackup(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	h.addAccount(porter, false)
	send := func(email, body string) answer {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/v1/backup", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+h.token(email))
		return h.send(adminapi.Web, r)
	}
	const good = `{"passphrase":"four words nobody knows","password":"correct horse battery"}`
	h.want(send(porter, good), 403, `{"message":"Forbidden: this account is not an administrator"}`)
	for _, password := range []string{"correct horse", strings.Repeat("x", 5000)} {
		h.want(send(chief, `{"passphrase":"four words nobody knows","password":"`+password+`"}`), 403, `{"message":"This is not the password of your account"}`)
	}
	h.want(send(chief, `{"passphrase":"four words nobody knows"}`), 400, `{"message":"The password of your account is missing: send it as \"password\""}`)
	h.want(send(chief, `{"passphrase":"short","password":"correct horse battery"}`), 400, `{"message":"The passphrase is too short"}`)
	h.want(send(chief, `{"passphrase":7}`), 400, `{"message":"\"passphrase\" cannot be a number"}`)
	h.want(send(chief, ""), 400, `{"message":"The body is missing: send a JSON object"}`)
	if len(h.takers) != 0 {
		t.Error("a backup was taken")
	}
	got := send(chief, good)
	if got.status != 200 || got.body != h.parcel.text || got.header.Get("Content-Type") != "application/octet-stream" ||
		got.header.Get("Content-Disposition") != `attachment; filename="gatehouse.backup"` {
		t.Errorf("got %d %s %v", got.status, got.body, got.header)
	}
	if len(h.takers) != 1 || h.takers[0].Name != chief || !h.parcel.isClosed() {
		t.Errorf("taken by %+v", h.takers)
	}
	if strings.Contains(h.log.String(), "nobody knows") {
		t.Error("the log has the passphrase")
	}
}

// A backup under way ends with the rights of who takes it.
func TestHandler_sealedBackup_demoted(t *testing.T) {
	for name, end := range map[string]func(h *house) error{
		"removed":    func(h *house) error { return h.access.RemoveAccount(t.Context(), site.Actor{}, chief) },
		"demoted":    func(h *house) error { return h.access.SetAdmin(t.Context(), site.Actor{}, chief, false) },
		"signed out": func(h *house) error { _, err := h.access.RevokeAccount(t.Context(), site.Actor{}, chief); return err },
	} {
		h := open(t)
		h.addAccount(chief, true)
		h.parcel.more = make(chan struct{})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/v1/backup", strings.NewReader(`{"passphrase":"four words nobody knows","password":"correct horse battery"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+h.token(chief))
		w, ended := httptest.NewRecorder(), make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			h.handler(adminapi.Web).ServeHTTP(w, r)
		}()
		<-h.parcel.more
		h.must(end(h))
		h.parcel.more <- struct{}{}
		if aborted := <-ended; aborted != http.ErrAbortHandler || strings.HasSuffix(w.Body.String(), h.parcel.text) { //nolint:errorlint // net/http compares it
			t.Errorf("%s: it ended with %v after %q", name, aborted, w.Body)
		}
	}
}

func TestHandler_restart(t *testing.T) {
	h := open(t)
	h.want(h.do("POST", "/admin/v1/restart", ""), 202, `{"boot":"boot"}`)
	if len(h.restarters) != 1 || !h.restarters[0].Admin {
		t.Errorf("restarted by %+v", h.restarters)
	}
	h.restarts = fault.New(fault.Conflict, "Nothing would start it again")
	h.want(h.do("POST", "/admin/v1/restart", ""), 409, `{"message":"Nothing would start it again"}`)
	h.want(h.do("GET", "/admin/v1/restart", ""), 405, `{"message":"Method not allowed"}`)
}

func TestHandler_backup_refused(t *testing.T) {
	h := open(t)
	h.want(h.do("GET", "/admin/v1/backup", "{}"), 400, `{"message":"A request for a backup has no body"}`)
	h.parcel.taken = fault.New(fault.Unavailable, "There is no room")
	h.want(h.do("GET", "/admin/v1/backup", ""), 503, `{"message":"There is no room"}`)
	h.want(h.do("PUT", "/admin/v1/backup", ""), 405, `{"message":"Method not allowed"}`)
	_, err := h.serve().Backup(t.Context())
	if !fault.Is(err, fault.Unavailable) || fault.Sentence(err) != "There is no room" {
		t.Errorf("the client says %v", err)
	}
}

// One at a time; and what breaks off, for whatever reason, is not taken for whole.
func TestClient_Backup_breaksOff(t *testing.T) {
	for name, broken := range map[string]func(h *house){
		"by itself":                func(h *house) { h.parcel.fails = errors.New("the disk failed") },
		"because the gateway ends": func(h *house) { h.kit.Drain() },
	} {
		h := open(t)
		h.parcel.more = make(chan struct{})
		c := h.serve()
		body := make(chan io.ReadCloser, 1)
		go func() {
			b, err := c.Backup(context.Background())
			if err != nil {
				t.Error(err)
			}
			body <- b
		}()
		<-h.parcel.more // the first piece is written, though not yet sent
		if name == "by itself" {
			if _, err := c.Backup(t.Context()); !fault.Is(err, fault.Throttled) {
				t.Errorf("a second one: %v", err)
			}
		}
		broken(h)
		h.parcel.more <- struct{}{}
		b := <-body
		if b == nil {
			t.Fatal("no answer")
		}
		_, err := io.ReadAll(b)
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
		h.must(b.Close())
		await.Until(t, "the backup is closed", h.parcel.isClosed)
	}
}
