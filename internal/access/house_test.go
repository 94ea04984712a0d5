package access_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/access/amend"
	"gatehouse/internal/fault"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

const (
	keyText = "the-hmac-key-of-these-tests-0123456789"
	issuer  = site.GatewayID("7f8d3a52-5a0e-4a53-9a1c-0a4a1f6a2f10")
	porter  = "porter@example.test"
	guest   = "guest@example.test"
	right   = site.Secret("correct horse battery")
	wrong   = site.Secret("incorrect horse")
)

// cheap are hash parameters that take no time.
func cheap() access.Params { return access.Params{MemoryKiB: 8, Time: 1, Threads: 1} }

// admin is the administrator of these tests.
func admin() site.Actor { return site.Actor{Origin: site.Admin, Name: "uid 1000 (ada)"} }

// address returns the n-th client address, each in a network of its own.
func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// failer is what of testing.TB and rapid.TB the tests need.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// house is a service with everything around it.
type house struct {
	*access.Service
	changes *amend.Service
	t       failer
	store   *memoryStore
	clock   *manualClock
	hashes  atomic.Int64 // passwords hashed since the service was opened
	tweak   []func(*access.Config)
}

// open returns a service over an empty store.
func open(t failer, tweak ...func(*access.Config)) *house {
	t.Helper()
	h := &house{t: t, store: newStore(), clock: newClock(), tweak: tweak}
	h.restart()
	return h
}

// logTo makes the service write its log to out.
func logTo(out *bytes.Buffer) func(*access.Config) {
	return func(c *access.Config) { c.Logger = slog.New(slog.NewTextHandler(out, nil)) }
}

// restart loads a new service from what the store holds.
func (h *house) restart() {
	h.t.Helper()
	h.changes = amend.New(h.store)
	cfg := access.Config{
		Store: h.store, Changes: h.changes, Clock: h.clock, Key: []byte(keyText), Issuer: issuer, Params: cheap(), Zone: time.UTC,
		HashSlots: 2, AccountFailures: access.AccountBurst, AddressFailures: access.AddressBurst,
		Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(),
	}
	for _, tweak := range h.tweak {
		tweak(&cfg)
	}
	service, err := access.New(context.Background(), cfg)
	if err != nil {
		h.t.Fatalf("opening the service: %v", err)
	}
	h.Service = service
	h.hashes.Store(0)
	h.WrapDerive(func(next access.Derive) access.Derive {
		return func(password, salt []byte, time, memory uint32, threads uint8, length uint32) []byte {
			h.hashes.Add(1)
			return next(password, salt, time, memory, threads, length)
		}
	})
}

// fakeHashing replaces argon2 by SHA-256 where a test logs in very often.
func (h *house) fakeHashing() {
	h.WrapDerive(func(access.Derive) access.Derive {
		return func(password, salt []byte, _, _ uint32, _ uint8, _ uint32) []byte {
			sum := sha256.Sum256(append(append([]byte{}, salt...), password...))
			return sum[:]
		}
	})
}

// onHash calls hook whenever a password is about to be hashed.
func (h *house) onHash(hook func(password string)) {
	h.WrapDerive(func(next access.Derive) access.Derive {
		return func(password, salt []byte, time, memory uint32, threads uint8, length uint32) []byte {
			hook(string(password))
			return next(password, salt, time, memory, threads, length)
		}
	})
}

// add makes an account with the right password.
func (h *house) add(email string) site.Account {
	h.t.Helper()
	account, err := h.AddAccount(context.Background(), admin(), email, right, false)
	if err != nil {
		h.t.Fatalf("adding %s: %v", email, err)
	}
	return account
}

// login logs in with the right password.
func (h *house) login(email string) access.Tokens {
	h.t.Helper()
	tokens, err := h.Login(context.Background(), email, right, at(address(1)))
	if err != nil {
		h.t.Fatalf("logging %s in: %v", email, err)
	}
	return tokens
}

// at returns a client at an address that shows no device.
func at(from netip.Addr) access.Client { return access.Client{Remote: from} }

// device logs in at an address, and returns the client as a device that is known from then on.
func (h *house) device(email string, from netip.Addr) access.Client {
	h.t.Helper()
	tokens, err := h.Login(context.Background(), email, right, at(from))
	if err != nil {
		h.t.Fatalf("logging %s in: %v", email, err)
	}
	return access.Client{Remote: from, Device: tokens.Device}
}

// try logs in without a device and returns the error.
func (h *house) try(email string, password site.Secret, from netip.Addr) error {
	return h.tryOn(email, password, at(from))
}

// tryOn logs in and returns the error.
func (h *house) tryOn(email string, password site.Secret, client access.Client) error {
	_, err := h.Login(context.Background(), email, password, client)
	return err
}

// RevokeByRefresh ends the session of a refresh token.
func (h *house) RevokeByRefresh(ctx context.Context, refresh site.Secret) error {
	return h.revokeBy(ctx, refresh, false)
}

// RevokeAllByRefresh ends every session of the account of a refresh token.
func (h *house) RevokeAllByRefresh(ctx context.Context, refresh site.Secret) error {
	return h.revokeBy(ctx, refresh, true)
}

func (h *house) revokeBy(ctx context.Context, refresh site.Secret, all bool) error {
	actor, err := h.RefreshToRevoke(refresh)
	if err != nil {
		return err
	}
	return h.Revoke(ctx, actor, all)
}

// actor authenticates a token that must be good.
func (h *house) actor(token site.Secret) site.Actor {
	h.t.Helper()
	actor, err := h.Authenticate(token)
	if err != nil {
		h.t.Fatalf("authenticating: %v", err)
	}
	return actor
}

// alive requires that both tokens of a login are good.
func (h *house) alive(tokens access.Tokens) {
	h.t.Helper()
	if _, err := h.Authenticate(tokens.Access); err != nil {
		h.t.Errorf("the access token of a live session: %v", err)
	}
	if _, err := h.Refresh(context.Background(), tokens.Refresh); err != nil {
		h.t.Errorf("the refresh token of a live session: %v", err)
	}
}

// dead requires that neither token of a login is good.
func (h *house) dead(tokens access.Tokens) {
	h.t.Helper()
	_, err := h.Authenticate(tokens.Access)
	h.refused(err, "Token is invalid")
	_, err = h.Refresh(context.Background(), tokens.Refresh)
	h.refused(err, "Token is invalid")
}

// refused requires an Unauthenticated error with that sentence.
func (h *house) refused(err error, sentence string) {
	h.t.Helper()
	h.is(err, fault.Unauthenticated)
	if err != nil && fault.Sentence(err) != sentence {
		h.t.Errorf("the sentence is %q, want %q", fault.Sentence(err), sentence)
	}
}

// is requires an error of kind.
func (h *house) is(err error, kind fault.Kind) {
	h.t.Helper()
	if !fault.Is(err, kind) {
		h.t.Errorf("the error is %v, want one of kind %d", err, kind)
	}
}

// ok requires that there is no error.
func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Errorf("unexpected error: %v", err)
	}
}

// agree requires that memory and store hold the same.
func (h *house) agree() {
	h.t.Helper()
	before := h.inventory()
	h.restart()
	if after := h.inventory(); after != before {
		h.t.Errorf("memory and store differ:\nmemory: %s\nstore:  %s", before, after)
	}
}

// flush lets Run try again what storage would not take.
func (h *house) flush() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.ok(h.Run(ctx))
}

// inventory describes all that the service holds, without the last uses of sessions, which
// memory alone has for up to an hour.
func (h *house) inventory() string {
	text := fmt.Sprintf("%+v %+v %+v %+v", h.Accounts(), h.Grants(), h.Groups(), h.Holidays())
	for _, a := range h.Accounts() {
		sessions, err := h.Sessions(string(a.Email))
		for i := range sessions {
			sessions[i].Used = site.Timestamp{}
		}
		text += fmt.Sprintf(" %+v %v", sessions, err)
	}
	return text
}

// parallel runs n calls at once and waits for them.
func parallel(n int, call func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
	}
	all.Wait()
}

var _ failer = testing.TB(nil)
