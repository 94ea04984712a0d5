package setup_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access/setup"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// house is a gateway without accounts.
type house struct {
	t    *testing.T
	log  bytes.Buffer
	hang chan struct{} // what AddAccount waits for; nil: nothing

	mu       sync.Mutex // mu guards everything below
	accounts []site.Account
	adding   error
	kept     site.Secret
	storing  error
	notice   string
	showing  error
}

func (h *house) Accounts() []site.Account {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]site.Account{}, h.accounts...)
}

func (h *house) AddAccount(_ context.Context, by site.Actor, email string, password site.Secret, admin bool) (site.Account, error) {
	if h.hang != nil {
		<-h.hang
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.adding != nil {
		return site.Account{}, h.adding
	}
	if by.Name != "setup code" || by.Origin != site.Admin || !admin || password == "" {
		h.t.Errorf("the account is made by %+v, as an administrator: %t", by, admin)
	}
	a := site.Account{ID: "id", Email: site.Email(email)}
	h.accounts = append(h.accounts, a)
	return a, nil
}

func (h *house) Code() (site.Secret, error)  { return h.kept, h.storing }
func (h *house) Keep(code site.Secret) error { h.kept = code; return h.storing }
func (h *house) Forget() error               { h.kept = ""; return h.storing }

func (h *house) Show(code site.Secret) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notice = code.Reveal()
	return h.showing
}

func (h *house) Hide() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notice = ""
	return nil
}

// owner is the address of the owner's phone.
func owner() netip.Addr { return netip.MustParseAddr("192.0.2.7") }

// start returns a Service that was started.
func (h *house) start() *setup.Service {
	h.t.Helper()
	s := setup.New(setup.Config{Accounts: h, Store: h, Notice: h, Logger: slog.New(slog.NewTextHandler(&h.log, nil))})
	s.Start()
	return s
}

var form = regexp.MustCompile(`^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$`)

// The code is in the log, once, in the notice and in the store; a restart keeps it.
func TestService_Start(t *testing.T) {
	h := &house{t: t}
	h.start()
	code := h.kept.Reveal()
	if !form.MatchString(code) || h.notice != code || strings.Count(h.log.String(), code) != 1 || strings.Count(h.log.String(), "\n") != 1 {
		t.Errorf("kept %q, shown %q, logged\n%s", code, h.notice, h.log.String())
	}
	h.start()
	if h.kept.Reveal() != code || h.notice != code {
		t.Errorf("after a restart %q is kept and %q shown, not %q", h.kept.Reveal(), h.notice, code)
	}
	other := &house{t: t}
	other.start()
	if other.kept == h.kept {
		t.Error("two boards have one code")
	}
}

// Where there is an account nothing is shown, and what an earlier start left is removed.
func TestService_Start_withAccount(t *testing.T) {
	h := &house{t: t, accounts: []site.Account{{}}, kept: "K7QF-3MRD", notice: "K7QF-3MRD"}
	s := h.start()
	if s.Open() || h.kept != "" || h.notice != "" || h.log.Len() > 0 {
		t.Errorf("open: %t, kept %q, shown %q, logged\n%s", s.Open(), h.kept.Reveal(), h.notice, h.log.String())
	}
	if _, err := s.Begin(t.Context(), owner(), "K7QF-3MRD", "a@example.test", "correct horse"); !fault.Is(err, fault.NotFound) || fault.Sentence(err) != "Not found" {
		t.Errorf("got %v", err)
	}
	if _, err := s.Begin(t.Context(), owner(), "", "a@example.test", "correct horse"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

// A store that fails, or holds something else, leaves a code for this run.
func TestService_Start_badStore(t *testing.T) {
	for name, h := range map[string]*house{
		"failing":   {t: t, storing: errors.New("read-only"), kept: "K7QF-3MRD"},
		"damaged":   {t: t, kept: "K7QF-3MR"},
		"no hyphen": {t: t, kept: "K7QF33MRD"},
		"empty":     {t: t, kept: "----6-----"},
	} {
		s := h.start()
		if !form.MatchString(h.notice) || h.notice == "K7QF-3MRD" {
			t.Errorf("%s: the code is %q", name, h.notice)
		}
		if _, err := s.Begin(t.Context(), owner(), site.Secret(h.notice), "a@example.test", "correct horse"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestService_Begin(t *testing.T) {
	h := &house{t: t}
	s := h.start()
	code := h.kept.Reveal()
	for _, wrong := range []string{"", "AAAA-AAAA", code[:8], code + "2"} {
		if _, err := s.Begin(t.Context(), owner(), site.Secret(wrong), "a@example.test", "correct horse"); !fault.Is(err, fault.Forbidden) {
			t.Errorf("with the code %q: %v", wrong, err)
		}
	}
	made, err := s.Begin(t.Context(), owner(), site.Secret(" "+strings.ToLower(strings.Replace(code, "-", " ", 1))), "a@example.test", "correct horse")
	if err != nil || made.Email != "a@example.test" || s.Open() || h.kept != "" || h.notice != "" {
		t.Errorf("made %v, %v; open: %t, kept %q, shown %q", made.Email, err, s.Open(), h.kept.Reveal(), h.notice)
	}
	if _, err := s.Begin(t.Context(), owner(), site.Secret(code), "b@example.test", "correct horse"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a second time: %v", err)
	}
	if strings.Count(h.log.String(), code) != 1 {
		t.Errorf("the code is shown again\n%s", h.log.String())
	}
}

// Where the account is refused the code is still accepted.
func TestService_Begin_refused(t *testing.T) {
	h := &house{t: t, adding: fault.New(fault.Unavailable, "no storage")}
	s := h.start()
	if _, err := s.Begin(t.Context(), owner(), h.kept, "a@example.test", "correct horse"); !fault.Is(err, fault.Unavailable) || !s.Open() || h.notice == "" {
		t.Errorf("got %v, open: %t, shown %q", err, s.Open(), h.notice)
	}
	h.adding = nil
	if _, err := s.Begin(t.Context(), owner(), h.kept, "a@example.test", "correct horse"); err != nil {
		t.Error(err)
	}
}

// Five wrong codes at once and five a minute from one address; the right one is accepted
// at any time, also from there.
func TestService_Begin_throttled(t *testing.T) {
	for name, from := range map[string]struct{ attacker, owner string }{
		"another address":          {"192.0.2.66", "192.0.2.7"},
		"a neighbour of IPv6":      {"fd00::66", "fd00::7"},
		"the owner's own address":  {"192.0.2.7", "192.0.2.7"},
		"this machine":             {"127.0.0.1", "127.0.0.1"},
		"the same link-local name": {"fe80::1%eth0", "fe80::1%wlan0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &house{t: t}
				s := h.start()
				compared := 0
				for range 2000 {
					_, err := s.Begin(t.Context(), netip.MustParseAddr(from.attacker), "AAAA-AAAA", "a@example.test", "correct horse")
					if after := fault.RetryAfter(err); !fault.Is(err, fault.Throttled) {
						compared++
					} else if after <= 0 || after > time.Minute {
						t.Fatalf("come back after %s", after)
					}
					time.Sleep(300 * time.Millisecond)
				}
				if compared < 50 || compared > 56 { // in ten minutes
					t.Errorf("%d wrong codes in ten minutes", compared)
				}
				if _, err := s.Begin(t.Context(), netip.MustParseAddr(from.owner), h.kept, "a@example.test", "correct horse"); err != nil {
					t.Errorf("the right code: %v", err)
				}
				if lines := strings.Count(h.log.String(), "wrong setup code"); lines > compared {
					t.Errorf("%d lines in the log", lines)
				}
			})
		})
	}
}

// An IPv6 network has a bound of its own, and the log one for all addresses.
func TestService_Begin_throttledNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t}
		s := h.start()
		compared := 0
		for i := range 2000 {
			from := netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)})
			if _, err := s.Begin(t.Context(), from, "AAAA-AAAA", "a@example.test", "correct horse"); !fault.Is(err, fault.Throttled) {
				compared++
			}
		}
		if lines := strings.Count(h.log.String(), "wrong setup code"); compared != 5*64 || lines != 5 {
			t.Errorf("%d wrong codes of one network, %d lines in the log", compared, lines)
		}
		_, err := s.Begin(t.Context(), netip.MustParseAddr("fd00::ffff:2"), "AAAA-AAAA", "a@example.test", "correct horse")
		if after := fault.RetryAfter(err); after != 12*time.Second/64 {
			t.Errorf("the next address of the network is to come back after %s", after)
		}
		if _, err := s.Begin(t.Context(), netip.MustParseAddr("fd00::ffff:1"), h.kept, "a@example.test", "correct horse"); err != nil {
			t.Errorf("the right code: %v", err)
		}
	})
}

// However many come at once with the code, one account is made.
func TestService_Begin_race(t *testing.T) {
	h := &house{t: t}
	s := h.start()
	code := h.kept
	var wait sync.WaitGroup
	results := make(chan error, 5)
	for range cap(results) {
		wait.Go(func() {
			_, err := s.Begin(t.Context(), owner(), code, "a@example.test", "correct horse")
			results <- err
		})
	}
	wait.Wait()
	close(results)
	made := 0
	for err := range results {
		if err == nil {
			made++
		} else if !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	}
	if made != 1 || len(h.accounts) != 1 {
		t.Errorf("%d succeeded and %d accounts were made", made, len(h.accounts))
	}
}

func TestService_Begin_givenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t}
		h.hang = make(chan struct{}) // the one before hangs in its store
		s := h.start()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.Begin(context.Background(), owner(), h.kept, "a@example.test", "correct horse")
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Begin(ctx, owner(), h.kept, "a@example.test", "correct horse"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v", err)
		}
		close(h.hang)
		<-done
	})
}

// An account from elsewhere ends it too; until then the notice is kept up to date, and a
// console that cannot be written is logged once.
func TestService_Run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t, showing: errors.New("no such folder")}
		s := h.start()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		h.mu.Lock()
		h.notice = ""
		h.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if h.notice == "" || strings.Count(h.log.String(), "does not show the setup code") != 1 {
			t.Errorf("shown %q, logged\n%s", h.notice, h.log.String())
		}
		h.mu.Lock()
		h.accounts = append(h.accounts, site.Account{})
		h.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s.Open() || h.kept != "" || h.notice != "" {
			t.Errorf("open: %t, kept %q, shown %q", s.Open(), h.kept.Reveal(), h.notice)
		}
		h.mu.Lock()
		h.accounts = nil // the last one is removed again: that is no new board
		h.mu.Unlock()
		if s.Open() {
			t.Error("it opened again")
		}
		select {
		case err := <-ended:
			t.Errorf("it ended by itself: %v", err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
