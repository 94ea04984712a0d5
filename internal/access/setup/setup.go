// Package setup creates the first administrator of a gateway without accounts. The
// gateway's log and its text console show a code, unique to this board; with the code the
// installer creates the account. Package httpapi calls [Service.Begin]; the assembly calls
// the rest. Later administrators are created by administrators.
//
// Promises: the code is in one line of the log, in the notice for the console, and in the
// store until the first account exists; then it is removed and no longer accepted. The
// right code is accepted at any time, whatever other clients send: it has 40 random
// bits, so that trying many codes finds nothing. Wrong ones are slowed down for each
// client address. However many right ones come at once, one account is created.
package setup

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// attempts is how many wrong codes an address may send at once, and attemptEvery how
	// soon it may send another. An IPv6 network may send wider times as many. The log takes
	// as many lines as one address may cause.
	attempts     = 5
	attemptEvery = time.Minute / attempts
	wider        = 64
	// lookEvery is how often [Service.Run] checks for an account and updates the notice.
	lookEvery = time.Second
)

// Accounts keeps the accounts; package access satisfies it. Safe for concurrent use.
type Accounts interface {
	// Accounts lists them. Quick.
	Accounts() []site.Account
	// AddAccount creates one and records it. Errors: Invalid for an unusable address or
	// password, Conflict, Unavailable.
	AddAccount(ctx context.Context, by site.Actor, email string, password site.Secret, admin bool) (site.Account, error)
}

// Store keeps the code over restarts. It is called by one goroutine at a time.
type Store interface {
	// Code returns what was kept, or "".
	Code() (site.Secret, error)
	// Keep keeps a code.
	Keep(code site.Secret) error
	// Forget removes the code; where none was kept it returns nil.
	Forget() error
}

// Notice is what the text console of the board shows. It is called by one goroutine at
// a time.
type Notice interface {
	// Show replaces the notice by one with the code.
	Show(code site.Secret) error
	// Hide removes it; where there is none it returns nil.
	Hide() error
}

// Config is what a Service needs; all of it.
type Config struct {
	Accounts Accounts
	Store    Store
	Notice   Notice
	Logger   *slog.Logger
}

// Service creates the first administrator. Open and Begin are safe for concurrent use.
type Service struct {
	Config
	turn chan struct{} // capacity 1: holds a token while an account is created or looked for
	over atomic.Bool   // there has been an account
	code site.Secret   // set by Start

	mu       sync.Mutex // mu guards the tables of wrong codes
	clients  *limit.Buckets[netip.Addr]
	networks *limit.Buckets[netip.Addr]
	lines    limit.Bucket // of the log

	// Guarded by turn, and touched by Start before there is any other caller.
	blind bool // whether the notice could not be shown the last time
}

// New returns a Service; it starts nothing.
func New(cfg Config) *Service {
	s := &Service{
		Config: cfg, turn: make(chan struct{}, 1),
		clients:  limit.NewBuckets[netip.Addr](attempts, attemptEvery),
		networks: limit.NewBuckets[netip.Addr](wider*attempts, attemptEvery/wider),
	}
	s.over.Store(len(cfg.Accounts.Accounts()) > 0)
	return s
}

// Start shows the code where there is no account, in the log and by the notice. Call it
// once, before anything is served. A code that cannot be kept holds for this run.
func (s *Service) Start() {
	if s.over.Load() {
		s.conceal()
		return
	}
	code, err := s.Store.Code()
	if err != nil {
		s.Logger.Warn("the kept setup code cannot be read; there is a new one", "error", err)
	}
	if err != nil || len(plain(code)) != 2*half {
		code = newCode()
		if err := s.Store.Keep(code); err != nil {
			s.Logger.Warn("the setup code cannot be kept; it is another one after a restart", "error", err)
		}
	}
	s.code = code
	s.Logger.Warn("no account yet: create the first administrator with the setup code", "setup_code", code.Reveal()) // meant to be read there
	s.show()
}

// show updates the notice.
func (s *Service) show() {
	err := s.Notice.Show(s.code)
	if err != nil && !s.blind { // once is enough
		s.Logger.Warn("the text console does not show the setup code", "error", err)
	}
	s.blind = err != nil
}

// conceal removes the code from the notice and the store.
func (s *Service) conceal() {
	if err := errors.Join(s.Notice.Hide(), s.Store.Forget()); err != nil {
		s.Logger.Warn("the setup code, which is no longer accepted, cannot be removed", "error", err)
	}
}

// Run keeps the notice up to date, and removes it when there is an account, however it was
// created. It blocks until ctx ends and returns nil.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for s.look() {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	<-ctx.Done()
	return nil
}

// look updates the notice, or removes it once there is an account; it reports whether
// there is none yet.
func (s *Service) look() bool {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if !s.Open() {
		s.conceal()
		return false
	}
	s.show()
	return true
}

// Open reports whether there has been no account since the start. Quick.
func (s *Service) Open() bool {
	if !s.over.Load() && len(s.Accounts.Accounts()) > 0 {
		s.over.Store(true)
	}
	return !s.over.Load()
}

// Begin creates the first administrator, for a client at remote that knows the code.
// Errors: NotFound once there is an account, Forbidden for a wrong code, Throttled for
// a wrong code after too many of them, Invalid for an unusable e-mail address or
// password, Unavailable, also when ctx ends before its turn.
func (s *Service) Begin(ctx context.Context, remote netip.Addr, code site.Secret, email string, password site.Secret) (site.Account, error) {
	if !s.Open() {
		return site.Account{}, errOver()
	}
	if !s.matches(code) {
		return site.Account{}, s.wrong(remote, time.Now())
	}
	release, err := amend.Acquire(ctx, s.turn)
	if err != nil {
		return site.Account{}, err
	}
	defer release()
	if !s.Open() {
		return site.Account{}, errOver()
	}
	account, err := s.Accounts.AddAccount(ctx, site.Actor{Origin: site.Admin, Name: "setup code"}, email, password, true)
	if err != nil {
		return site.Account{}, err
	}
	s.over.Store(true)
	s.conceal()
	return account, nil
}

func errOver() error { return fault.New(fault.NotFound, "Not found") }

// wrong counts a wrong code, unless the client has to wait, and returns the error for it.
func (s *Service) wrong(remote netip.Addr, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	network := limit.Network(remote)
	if wait := max(s.clients.Wait(remote, now), s.networks.Wait(network, now)); wait > 0 {
		return fault.Throttle("Too many attempts; try again later", wait)
	}
	s.clients.Take(remote, now)
	s.networks.Take(network, now)
	if rate := (limit.Rate{Burst: attempts, Every: attemptEvery}); s.lines.Wait(now, rate) == 0 {
		s.lines.Take(now, rate)
		s.Logger.Warn("wrong setup code", "remote", remote)
	}
	return fault.New(fault.Forbidden, "The setup code is wrong; the log of the gateway and its text console show it")
}

// matches compares in a time that does not depend on the code.
func (s *Service) matches(given site.Secret) bool {
	want, got := plain(s.code), plain(given)
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1
}

// alphabet is 32 signs of which no two look or sound the same to people who write them
// down: no 0 and O, no 1 and I.
const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"

// half is how many signs are on each side of the hyphen.
const half = 4

// newCode makes a code such as "K7QF-3MRD".
func newCode() site.Secret {
	random := make([]byte, 2*half)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	for i, b := range random {
		random[i] = alphabet[int(b)%len(alphabet)] // 32 divides 256: each is as likely
	}
	return site.Secret(random[:half]) + "-" + site.Secret(random[half:])
}

// plain returns the signs of a code as people type it: in small letters, with blanks, or
// without the hyphen.
func plain(code site.Secret) string {
	return strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code.Reveal()))
}
