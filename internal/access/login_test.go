package access_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func TestService_Login(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	tokens := h.login("  Porter@Example.TEST ")
	h.alive(tokens)
	want := site.Actor{Origin: site.Local, Account: account.ID, Session: h.actor(tokens.Access).Session, Email: porter}
	if got := h.actor(tokens.Access); got != want {
		t.Errorf("the actor is %+v, want %+v", got, want)
	}
	id, err := uuid.Parse(tokens.Refresh.Reveal())
	if err != nil || id.Version() != 4 || id.String() != tokens.Refresh.Reveal() {
		t.Errorf("the refresh token is no version 4 UUID in its usual form")
	}
	h.agree()
	h.alive(tokens)
}

func TestService_Login_record(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.login(porter)
	kept := h.store.kept()
	want := site.Facts{Origin: site.Local, Account: account.ID, Email: porter, Session: kept[0], Remote: "10.0.0.1"}
	if got := h.store.of(site.KindLogin); len(got) != 1 || got[0].Facts != want {
		t.Errorf("the records are %+v, want one with %+v", got, want)
	}
	stored := h.store.sessions[kept[0]]
	if !stored.ClockTrusted || stored.Remote != "10.0.0.1" || !stored.Expires.Equal(stored.Created.Add(access.SessionLife)) {
		t.Errorf("the stored session is %+v", stored)
	}
}

// A client that fails to log in learns nothing: not from the answer, and not from the
// work, which is counted here instead of timed.
func TestService_Login_indistinguishable(t *testing.T) {
	h := open(t)
	h.add(porter)
	cases := map[string]struct {
		email    string
		password site.Secret
	}{
		"wrong password":     {porter, wrong},
		"unknown address":    {"nobody@example.test", wrong},
		"known password":     {"nobody@example.test", right},
		"malformed address":  {"no address at all", right},
		"empty address":      {"", right},
		"empty password":     {porter, ""},
		"overlong password":  {porter, site.Secret(strings.Repeat("x", 16<<10))},
		"right with a tail":  {porter, right + "\x00"},
		"everything missing": {"", ""},
	}
	n := 0
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n++
			var costs []string
			h.restart()
			h.WrapDerive(func(next access.Derive) access.Derive {
				return func(password, salt []byte, time, memory uint32, threads uint8, length uint32) []byte {
					costs = append(costs, fmt.Sprint(len(salt), time, memory, threads, length, len(password) <= access.MaxHashed))
					return next(password, salt, time, memory, threads, length)
				}
			})
			err := h.try(c.email, c.password, address(n))
			if err == nil || err.Error() != "Invalid credentials" || fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("the error is %v", err)
			}
			if len(costs) != 1 || costs[0] != "16 1 8 1 32 true" {
				t.Errorf("the work was %q, want one hash at full cost", costs)
			}
		})
	}
}

// Where stored hashes differ in cost, e-mail addresses without an account differ alike:
// each has the cost of some stored hash, always the same, also over a restart.
func TestService_Login_sameWorkAfterChange(t *testing.T) {
	h := open(t)
	h.add(porter)
	dear := access.Params{MemoryKiB: 16, Time: 2, Threads: 1}
	h.tweak = append(h.tweak, func(c *access.Config) { c.Params = dear })
	h.restart()
	h.add(guest)
	costs := func() (all string) {
		h.WrapDerive(func(next access.Derive) access.Derive {
			return func(password, salt []byte, time, memory uint32, threads uint8, length uint32) []byte {
				all += fmt.Sprint(time, ":", memory, " ")
				return next(password, salt, time, memory, threads, length)
			}
		})
		for i := range 100 {
			h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(i)), "Invalid credentials")
		}
		return all
	}
	first := costs()
	if cheap, all := strings.Count(first, "1:8 "), strings.Count(first, "2:16 "); cheap < 20 || all < 20 || cheap+all != 100 {
		t.Errorf("%d are compared at the old cost and %d at the new", cheap, all)
	}
	h.restart()
	if again := costs(); again != first {
		t.Error("the costs of unknown addresses change with a restart")
	}
}

func TestService_Login_overlongPassword(t *testing.T) {
	h := open(t)
	h.add(porter)
	long := site.Secret(strings.Repeat("x", access.MaxHashed))
	h.ok(h.SetPassword(t.Context(), admin(), porter, long[:256]))
	h.WrapDerive(func(access.Derive) access.Derive { // every password hashes to the stored sum
		return func([]byte, []byte, uint32, uint32, uint8, uint32) []byte { return make([]byte, 32) }
	})
	h.ok(h.SetPassword(t.Context(), admin(), porter, right))
	h.ok(h.try(porter, long, address(1)))
	h.refused(h.try(porter, long+"x", address(1)), "Invalid credentials")
}

func TestService_Login_unreadableHash(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	for _, stored := range []site.Secret{"", "plain", "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHRzYWx0$" + site.Secret(strings.Repeat("A", 43))} {
		account.Password = stored
		h.store.accounts[account.ID] = account
		h.restart()
		h.refused(h.try(porter, right, address(1)), "Invalid credentials")
		h.refused(h.try(porter, stored, address(1)), "Invalid credentials")
		if h.hashes.Load() != 2 {
			t.Errorf("%d hashes for two logins", h.hashes.Load())
		}
	}
}

func TestService_Login_storageFailing(t *testing.T) {
	h := open(t)
	h.add(porter)
	before := h.login(porter)
	h.store.fail("", errDisk)
	err := h.try(porter, right, address(1))
	h.is(err, fault.Unavailable)
	if fault.RetryAfter(err) == 0 {
		t.Error("nothing says when to come back")
	}
	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	h.alive(before)
	h.store.fail("", nil)
	if h.SessionCount() != 1 {
		t.Errorf("%d sessions, want the one from before", h.SessionCount())
	}
	h.alive(h.login(porter))
}

// A kind that the store decides for a session is no kind of a login.
func TestService_Login_rowVanished(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.store.fail("AddSession", fault.New(fault.NotFound, "no such account"))
	h.is(h.try(porter, right, address(1)), fault.Unavailable)
}

func TestService_Login_upgradesParameters(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	old := h.store.accounts[account.ID].Password
	h.tweak = append(h.tweak, func(c *access.Config) { c.Params = access.Params{MemoryKiB: 16, Time: 2, Threads: 1} })
	h.restart()

	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	if h.store.accounts[account.ID].Password != old || h.hashes.Load() != 1 {
		t.Error("a wrong password upgraded the hash")
	}
	h.store.fail("UpgradePassword", errDisk)
	h.login(porter)
	h.store.fail("UpgradePassword", nil)
	h.login(porter)
	upgraded := h.store.accounts[account.ID].Password
	if params, _, err := access.ReadHash(upgraded.Reveal()); err != nil || params != (access.Params{MemoryKiB: 16, Time: 2, Threads: 1}) {
		t.Errorf("the stored parameters are %+v, %v", params, err)
	}
	h.hashes.Store(0)
	h.login(porter)
	if h.hashes.Load() != 1 || h.store.accounts[account.ID].Password != upgraded {
		t.Error("an upgraded hash was made again")
	}
	h.agree()
	h.login(porter)
}

// Logins that upgrade the same hash at the same time do not void each other.
func TestService_Login_parallelUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		h.tweak = append(h.tweak, func(c *access.Config) { c.Params, c.HashSlots = access.Params{MemoryKiB: 16, Time: 1, Threads: 1}, 8 })
		h.restart()
		var gate sync.WaitGroup
		gate.Add(8)
		var first atomic.Int64
		h.onHash(func(string) {
			if first.Add(1) <= 8 {
				gate.Done()
				gate.Wait()
			}
		})
		parallel(8, func(i int) { h.ok(h.try(porter, right, address(i))) })
		h.agree()
		h.login(porter)
	})
}

// What changes while a password is being hashed is seen afterwards: no session
// comes out of a password that was replaced, or for an account that was removed.
func TestService_Login_overtaken(t *testing.T) {
	ctx := context.Background()
	cases := map[string]func(h *house) error{
		"password set": func(h *house) error { return h.SetPassword(ctx, admin(), porter, "another password") },
		"removed":      func(h *house) error { return h.RemoveAccount(ctx, admin(), porter) },
		"removed and added": func(h *house) error {
			err := h.RemoveAccount(ctx, admin(), porter)
			h.add(porter)
			return err
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t)
				h.add(porter)
				gate := make(chan struct{})
				var hashed atomic.Int64
				h.onHash(func(string) {
					if hashed.Add(1) == 1 { // the login; the change may hash too
						<-gate
					}
				})
				result := make(chan error, 1)
				go func() { result <- h.try(porter, right, address(1)) }()
				synctest.Wait()
				h.ok(change(h))
				close(gate)
				h.refused(<-result, "Invalid credentials")
				if n := len(h.store.kept()); n != 0 {
					t.Errorf("%d sessions are stored", n)
				}
				h.agree()
			})
		})
	}
}

// A revocation of all sessions that overtakes a login still under way leaves
// memory and store agreeing on what is alive.
func TestService_Login_revokedWhileStoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		first := h.login(porter)
		gate := make(chan struct{})
		h.store.entered = func(method string) {
			if method == "AddSession" {
				<-gate
			}
		}
		logins, revocations := make(chan access.Tokens, 1), make(chan error, 1)
		go func() { logins <- h.login(porter) }()
		synctest.Wait()
		go func() { revocations <- h.RevokeAllByRefresh(context.Background(), first.Refresh) }()
		synctest.Wait()
		h.dead(first) // at once, although the store is busy
		close(gate)
		h.ok(<-revocations)
		h.alive(<-logins)
		h.agree()
	})
}

func TestService_Login_evictsOldest(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.add(guest)
	h.fakeHashing()
	h.ok(h.SetPassword(t.Context(), admin(), porter, right))
	h.ok(h.SetPassword(t.Context(), admin(), guest, right))
	other := h.login(guest)
	all := make([]access.Tokens, 0, access.MaxSessions)
	for range access.MaxSessions {
		all = append(all, h.login(porter))
		h.clock.advance(time.Second)
	}
	h.alive(all[0])
	newest := h.login(porter)
	h.dead(all[0])
	h.flush()
	for _, tokens := range []access.Tokens{all[1], all[access.MaxSessions-1], newest, other} {
		h.alive(tokens)
	}
	if n := len(h.store.kept()); n != access.MaxSessions+1 {
		t.Errorf("%d sessions are stored, want %d of one account and 1 of the other", n, access.MaxSessions)
	}
	if ended := h.store.of(site.KindSessionRevoked); len(ended) != 1 || ended[0].Detail == "" {
		t.Errorf("the records do not say that a session was ended: %+v", ended)
	}
	h.agree()
}

// Of the sessions of an account that many share, those from the network that has most go first.
func TestService_Login_evictsLargestNetwork(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	h.ok(h.SetPassword(t.Context(), admin(), porter, right))
	from := func(remote netip.Addr) access.Tokens {
		h.clock.advance(5 * time.Second) // as often as an account may
		tokens, err := h.Login(t.Context(), porter, right, at(remote))
		h.ok(err)
		return tokens
	}
	mine := from(address(1))
	var theirs []access.Tokens
	for i := range access.MaxSessions + 1 {
		theirs = append(theirs, from(inOneNetwork(i)))
	}
	also := from(address(2))
	for _, tokens := range theirs[:3] {
		h.dead(tokens)
	}
	for _, tokens := range []access.Tokens{mine, theirs[3], also} {
		h.alive(tokens)
	}
	h.flush()
	h.agree()
}

func TestService_Login_evictionFails(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.fakeHashing()
	h.ok(h.SetPassword(t.Context(), admin(), porter, right))
	first := h.login(porter)
	for range access.MaxSessions - 1 {
		h.clock.advance(time.Second)
		h.login(porter)
	}
	h.store.fail("AddSession", errDisk)
	h.is(h.try(porter, right, address(1)), fault.Unavailable)
	h.alive(first)
}

// A login to an account with too many sessions does not wait until the end of the oldest is
// stored, and keeps no other login waiting.
func TestService_Login_evictionHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		h.fakeHashing()
		h.ok(h.SetPassword(t.Context(), admin(), porter, right))
		first := h.login(porter)
		for range access.MaxSessions - 1 {
			h.clock.advance(time.Second)
			h.login(porter)
		}
		h.store.entered = func(method string) {
			if method == "EndSessions" {
				time.Sleep(8 * time.Second) // the disk hangs
			}
		}
		stop := h.running()
		began := time.Now()
		for range 2 {
			h.clock.advance(time.Second)
			h.login(porter)
			synctest.Wait()
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the logins took %v", waited)
		}
		h.dead(first)
		stop()
		if n := len(h.store.kept()); n != access.MaxSessions {
			t.Errorf("%d sessions are stored", n)
		}
	})
}
