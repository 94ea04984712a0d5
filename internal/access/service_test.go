package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/access/amend"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

func TestNew_refuses(t *testing.T) {
	good := access.Config{Store: newStore(), Changes: amend.New(nil), Clock: newClock(), Key: []byte(keyText)[:32], Issuer: issuer, Params: cheap(), Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)}
	if _, err := access.New(t.Context(), good); err != nil {
		t.Fatalf("the least configuration: %v", err)
	}
	for name, spoil := range map[string]func(*access.Config){
		"no key":            func(c *access.Config) { c.Key = nil },
		"short key":         func(c *access.Config) { c.Key = c.Key[:31] },
		"too much memory":   func(c *access.Config) { c.Params = access.Params{MemoryKiB: 1 << 20, Time: 1, Threads: 1} },
		"too little memory": func(c *access.Config) { c.Params = access.Params{MemoryKiB: 7, Time: 1, Threads: 1} },
		"no passes":         func(c *access.Config) { c.Params = access.Params{MemoryKiB: 64, Threads: 1} },
		"no threads":        func(c *access.Config) { c.Params = access.Params{MemoryKiB: 64, Time: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			spoil(&cfg)
			if s, err := access.New(t.Context(), cfg); err == nil || s != nil {
				t.Error("it is taken")
			}
		})
	}
}

func TestNew_loadFails(t *testing.T) {
	store := newStore()
	store.fail("LoadAccess", errDisk)
	_, err := access.New(t.Context(), access.Config{Store: store, Changes: amend.New(nil), Clock: newClock(), Key: []byte(keyText), Issuer: issuer, Params: cheap(), Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, errDisk) {
		t.Errorf("the error is %v", err)
	}
}

// The key that New was given may be wiped afterwards.
func TestNew_copiesKey(t *testing.T) {
	key := []byte(keyText)
	h := open(t, func(c *access.Config) { c.Key = key })
	h.add(porter)
	tokens := h.login(porter)
	clear(key)
	h.alive(tokens)
}

// Rows that belong to nothing are passed over; expired sessions are dead.
func TestNew_strayRows(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	tokens := h.login(porter)
	h.store.sessions["stray"] = site.Session{ID: "stray", Account: "nobody", Expires: site.At(h.clock.Now().Add(day))}
	h.store.grants[site.GrantKey{Account: "nobody", Station: 7}] = site.Grant{Account: "nobody", Station: 7}
	h.store.known[deviceKey{account: "nobody"}] = site.LoginDevice{Account: "nobody", Until: h.clock.Now().Add(day)}
	h.store.sessions["old"] = site.Session{ID: "old", Account: account.ID, Expires: site.At(h.clock.Now())}
	h.restart()
	h.alive(tokens)
	if h.SessionCount() != 1 || len(h.Grants()) != 0 {
		t.Errorf("%d sessions, %d grants", h.SessionCount(), len(h.Grants()))
	}
}

// An account whose hash is unreadable is loaded, and logged.
func TestNew_unreadableHash(t *testing.T) {
	var log bytes.Buffer
	h := open(t, logTo(&log))
	account := h.add(porter)
	for _, c := range []struct {
		hash   site.Secret
		logged bool
	}{{h.store.accounts[account.ID].Password, false}, {"scrypt", true}} {
		account.Password = c.hash
		h.store.accounts[account.ID] = account
		h.restart()
		if got := strings.Contains(log.String(), "stored password is unreadable"); got != c.logged || len(h.Accounts()) != 1 {
			t.Errorf("%d accounts; the log is %q", len(h.Accounts()), log.String())
		}
	}
}

// Without a figure, logins leave one processor to the doors, where there are several.
func TestNew_hashSlots(t *testing.T) {
	for _, c := range []struct{ processors, configured, want int }{{4, 0, 3}, {4, 1, 1}, {1, 0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			before := runtime.GOMAXPROCS(c.processors)
			h := open(t, func(cfg *access.Config) { cfg.HashSlots = c.configured })
			runtime.GOMAXPROCS(before)
			var hashing atomic.Int64
			gate := make(chan struct{})
			h.onHash(func(string) { hashing.Add(1); <-gate })
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() { _ = h.try(guest, wrong, address(i)) })
			}
			synctest.Wait()
			if got := hashing.Load(); got != int64(c.want) {
				t.Errorf("%d hashes at once, want %d: %+v", got, c.want, c)
			}
			close(gate)
			all.Wait()
		})
	}
}

// What the store does not take is logged where no caller gets the error.
func TestService_logsStore(t *testing.T) {
	for method, c := range map[string]struct {
		message string
		call    func(h *house)
	}{
		"AppendRecord": {"failed login is not journalled", func(h *house) { _ = h.try(porter, wrong, address(1)) }},
		"DropExpired":  {"expired sessions stay in storage for now", func(h *house) { h.Prune(context.Background()) }},
		"RebaseSessions": {"storing the new expiry of sessions", func(h *house) {
			h.ClockStepped(time.Minute)
			synctest.Wait()
		}},
	} {
		for _, failing := range []error{nil, errDisk} {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				h := open(t, logTo(&log))
				h.add(porter)
				h.clock.trust(false)
				h.login(porter)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- h.Run(ctx) }()
				h.store.fail(method, failing)
				c.call(h)
				cancel()
				h.ok(<-done)
				if strings.Contains(log.String(), c.message) != (failing != nil) {
					t.Errorf("%s: %v, and the log is %q", method, failing, log.String())
				}
			})
		}
	}
}

func TestService_metrics(t *testing.T) {
	registry := metric.New()
	h := open(t, func(c *access.Config) { c.Metrics = registry })
	h.add(porter)
	h.login(porter)
	for range access.AccountBurst + 3 {
		_ = h.try(porter, wrong, address(2))
	}
	var out bytes.Buffer
	registry.Write(&out)
	for _, line := range []string{
		"gatehouse_sessions 1", `gatehouse_refusals_total{reason="login-invalid"} 10`, `gatehouse_refusals_total{reason="login-throttled"} 3`,
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("%q is missing", line)
		}
	}
}

// Whatever is printed of this package, in whatever way, shows no secret: no
// password, token, hash or key.
func TestService_printsNoSecret(t *testing.T) {
	var out bytes.Buffer
	levels := &slog.HandlerOptions{Level: slog.LevelDebug}
	text, lines := slog.New(slog.NewTextHandler(&out, levels)), slog.New(slog.NewJSONHandler(&out, levels))
	var config access.Config
	h := open(t, func(c *access.Config) { c.Logger = text; config = *c })
	account := h.add(porter)
	h.put(site.Grant{Account: account.ID, Station: 7})
	tokens := h.login(porter)
	stored := h.store.accounts[account.ID]
	fresh, err := h.Refresh(t.Context(), tokens.Refresh)
	h.ok(err)
	sessions, err := h.Sessions(porter)
	h.ok(err)

	things := []any{
		config, &config, h.Service, *h.Service, tokens, &tokens, fresh, account, stored, h.Accounts(), sessions,
		h.actor(tokens.Access), h.Grants(), right, access.GeneratePassword, access.DefaultParams(0), h.failures(tokens),
	}
	for _, thing := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", thing)
		}
		if data, err := json.Marshal(thing); err == nil {
			out.Write(data)
		}
		text.Info("a thing", "thing", thing)
		lines.Info("a thing", "thing", thing)
	}
	records, err := json.Marshal(h.store.records)
	h.ok(err)
	out.Write(records)
	fmt.Fprintf(&out, "%+v", h.store.records)

	hash := stored.Password.Reveal()
	secrets := map[string]string{
		"password": right.Reveal(), "wrong password": wrong.Reveal(), "overlong password": overlong.Reveal()[:50],
		"refresh token": tokens.Refresh.Reveal(), "access token": tokens.Access.Reveal(), "fresh token": fresh.Reveal(),
		"signature": tokens.Access.Reveal()[len(tokens.Access)-43:],
		"hash":      hash, "sum": hash[len(hash)-43:], "key": keyText, "key in numbers": strings.Trim(fmt.Sprint([]byte(keyText)), "[]"),
	}
	for name, secret := range secrets {
		for _, shape := range []string{secret, fmt.Sprintf("%x", secret), b64(secret)} {
			if strings.Contains(out.String(), shape) {
				t.Errorf("the %s is printed", name)
			}
		}
	}
}

// overlong is a password that no account can have.
var overlong = site.Secret(strings.Repeat("0verl0ng", 200))

// failures returns an error of every kind that this package has, by failing in every
// way.
func (h *house) failures(tokens access.Tokens) []error {
	ctx := context.Background()
	errs := []error{
		h.try(porter, wrong, address(1)), h.try(right.Reveal(), wrong, address(2)), h.try(porter, overlong, address(3)),
		h.SetPassword(ctx, admin(), porter, overlong), h.SetPassword(ctx, admin(), porter, "password"),
	}
	_, err := h.Authenticate(tokens.Access + "x")
	errs = append(errs, err)
	_, err = h.Refresh(ctx, tokens.Refresh+"x")
	errs = append(errs, err)
	h.store.fail("", errDisk)
	errs = append(errs, h.try(porter, right, address(4)), h.RevokeByRefresh(ctx, tokens.Refresh), h.SetPassword(ctx, admin(), porter, wrong))
	for i := range access.AccountBurst + 1 {
		errs = append(errs, h.try(guest, wrong, address(10+i)))
	}
	h.store.fail("", nil)
	return append(errs, errors.Join(errs...))
}

// Everything at once: run with -race. In the end memory and store agree.
func TestService_concurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.HashSlots = 4 })
		h.fakeHashing()
		emails := []string{porter, guest, "third@example.test"}
		for _, email := range emails {
			h.add(email)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		parallel(12, func(i int) {
			email := emails[i%len(emails)]
			for round := range 40 {
				h.meddle(email, i, round)
			}
		})
		cancel()
		h.ok(<-done)
		h.store.fail("", nil)
		h.agree()
	})
}

// meddle does one of everything that may go on at the same time.
func (h *house) meddle(email string, i, round int) {
	ctx := context.Background()
	tokens, err := h.Login(ctx, email, right, at(address(i)))
	if err == nil {
		actor, _ := h.Authenticate(tokens.Access)
		_, _ = h.Refresh(ctx, tokens.Refresh)
		_ = h.Permits(actor.Account, 7)
		_, _ = h.PutGrant(ctx, admin(), site.Grant{Account: actor.Account, Station: site.StationID(1 + round%3)})
		_ = h.RemoveGrant(ctx, admin(), site.GrantKey{Account: actor.Account, Station: site.StationID(1 + i%3)})
	}
	_, _ = h.Login(ctx, email, wrong, at(address(i)))
	switch (i + round) % 8 {
	case 0:
		_ = h.RevokeAllByRefresh(ctx, tokens.Refresh)
	case 1:
		_, _ = h.RevokeAccount(ctx, admin(), email)
	case 2:
		_ = h.RemoveAccount(ctx, admin(), email)
		_, _ = h.AddAccount(ctx, admin(), email, right, false)
	case 3:
		_ = h.SetPassword(ctx, admin(), email, right)
		_ = h.SetAdmin(ctx, admin(), email, round%2 == 0)
	case 4:
		h.stepped(time.Minute)
		h.SetZone(time.UTC)
	case 5:
		_ = h.RevokeByRefresh(ctx, tokens.Refresh)
	case 6:
		_, _ = h.Sessions(email)
		_, _, _ = h.Accounts(), h.Grants(), h.SessionCount()
	case 7:
		h.clock.advance(access.AccountEvery)
	}
}
