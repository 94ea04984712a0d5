package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// mail is the address of the i-th account.
func mail(i int) string { return fmt.Sprintf("u%d@example.test", i) }

// crowd is a house with n accounts, each logged in and with a grant for station 7;
// the first has one for each of the stations from 101 on, too.
type crowd struct {
	*house
	accounts []site.Account
	tokens   []access.Tokens
}

func gather(t failer, n int) *crowd {
	t.Helper()
	c := &crowd{house: open(t)}
	c.fakeHashing()
	for i := range n {
		account := c.add(mail(i))
		c.accounts, c.tokens = append(c.accounts, account), append(c.tokens, c.login(mail(i)))
		c.put(site.Grant{Account: account.ID, Station: 7})
		c.put(site.Grant{Account: c.accounts[0].ID, Station: station(i)})
	}
	return c
}

func station(i int) site.StationID { return site.StationID(101 + i) }

// grant returns account i a grant for a station that differs from the one it has.
func (c *crowd) grant(ctx context.Context, i int, station site.StationID) error {
	_, err := c.PutGrant(ctx, admin(), site.Grant{Account: c.accounts[i].ID, Station: station, Terms: site.Terms{Until: site.At(c.clock.Now())}})
	return err
}

// hold lets every call of the store wait until release, and counts those that are
// within.
func (h *house) hold() (inside *atomic.Int64, release func()) {
	inside = new(atomic.Int64)
	gate := make(chan struct{})
	h.store.entered = func(string) { inside.Add(1); <-gate }
	return inside, func() { close(gate) }
}

// changes are the changes that have to do with the i-th of something.
func changes() map[string]func(ctx context.Context, c *crowd, i int) error {
	return map[string]func(context.Context, *crowd, int) error{
		"put grants of one account":  func(ctx context.Context, c *crowd, i int) error { return c.grant(ctx, 0, station(i)) },
		"put grants for one station": func(ctx context.Context, c *crowd, i int) error { return c.grant(ctx, i, 7) },
		"remove grants of one account": func(ctx context.Context, c *crowd, i int) error {
			return c.RemoveGrant(ctx, admin(), site.GrantKey{Account: c.accounts[0].ID, Station: station(i)})
		},
		"remove grants for one station": func(ctx context.Context, c *crowd, i int) error {
			return c.RemoveGrant(ctx, admin(), site.GrantKey{Account: c.accounts[i].ID, Station: 7})
		},
		"set administrators": func(ctx context.Context, c *crowd, i int) error { return c.SetAdmin(ctx, admin(), mail(i), true) },
		"set passwords":      func(ctx context.Context, c *crowd, i int) error { return c.SetPassword(ctx, admin(), mail(i), wrong) },
		"add accounts":       func(ctx context.Context, c *crowd, i int) error { return c.addOne(ctx, "new-"+mail(i)) },
		"remove accounts":    func(ctx context.Context, c *crowd, i int) error { return c.RemoveAccount(ctx, admin(), mail(i)) },
		"log in": func(ctx context.Context, c *crowd, i int) error {
			_, err := c.Login(ctx, mail(i), right, at(address(i+1)))
			return err
		},
		"revoke one": func(ctx context.Context, c *crowd, i int) error { return c.RevokeByRefresh(ctx, c.tokens[i].Refresh) },
		"revoke all": func(ctx context.Context, c *crowd, i int) error {
			return c.RevokeAllByRefresh(ctx, c.tokens[i].Refresh)
		},
		"revoke all, by an administrator": func(ctx context.Context, c *crowd, i int) error {
			_, err := c.RevokeAccount(ctx, admin(), mail(i))
			return err
		},
	}
}

func (h *house) addOne(ctx context.Context, email string) error {
	_, err := h.AddAccount(ctx, admin(), email, right, false)
	return err
}

// The logins of different accounts are stored at once, and share a flush of the disk. All
// other changes are made one at a time; those that only revoke share a transaction.
func TestService_overlap(t *testing.T) {
	const n = 20
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gather(t, n)
				inside, release := c.hold()
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() { c.ok(change(context.Background(), c, i)) })
				}
				synctest.Wait()
				want, most := int64(1), int64(n)
				switch {
				case name == "log in":
					want = n
				case strings.HasPrefix(name, "re"):
					most = 2
				}
				if got := inside.Load(); got != want {
					t.Errorf("%d of %d are inside the store at once, want %d", got, n, want)
				}
				release()
				all.Wait()
				if got := inside.Load(); got > most {
					t.Errorf("%d transactions, want %d", got, most)
				}
				c.agree()
			})
		})
	}
}

// What has to do with one account or grant waits for its turn; a caller that stops waiting
// is told so.
func TestService_inTurn(t *testing.T) {
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gather(t, 1)
				inside, release := c.hold()
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() { _ = change(context.Background(), c, 0) })
				}
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				late := make(chan error, 1)
				go func() { late <- change(ctx, c, 0) }()
				synctest.Wait()
				if got := inside.Load(); got != 1 {
					t.Errorf("%d are inside the store at once", got)
				}
				cancel()
				err := <-late
				if name == "remove accounts" {
					c.is(err, fault.NotFound) // it is gone before it is stored
				} else if !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) {
					t.Errorf("who gave up got %v", err)
				}
				release()
				all.Wait()
				c.agree()
			})
		})
	}
}

// A login that began before the clock stepped is carried over the step, although its
// session is stored only after it. The step does not wait for that: the goroutine that
// judges the clock must not depend on a disk that hangs.
func TestService_ClockStepped_loginUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		h.clock.trust(false)
		gate := make(chan struct{})
		h.store.entered = func(method string) {
			if method == "AddSession" {
				<-gate
			}
		}
		logins := make(chan access.Tokens, 1)
		go func() { logins <- h.login(porter) }()
		synctest.Wait()
		h.step(400 * day)
		close(gate)
		tokens := <-logins
		h.ok(h.StoreRebased(t.Context()))
		if _, err := h.Refresh(t.Context(), tokens.Refresh); err != nil {
			t.Errorf("the session was lost with the step: %v", err)
		}
		h.agree()
	})
}

// No session outlives the removal of its account or a new password, even if these come
// while the session is being stored.
func TestService_Login_changedWhileStoring(t *testing.T) {
	for name, change := range map[string]func(*crowd) error{
		"removed":      func(c *crowd) error { return c.RemoveAccount(context.Background(), admin(), mail(0)) },
		"password set": func(c *crowd) error { return c.SetPassword(context.Background(), admin(), mail(0), wrong) },
	} {
		for where, stop := range map[string]func(*memoryStore, func(string)){
			"before": func(m *memoryStore, hook func(string)) { m.entered = hook },
			"after":  func(m *memoryStore, hook func(string)) { m.left = hook },
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := gather(t, 1)
					gate := make(chan struct{})
					stop(c.store, func(method string) {
						if method == "AddSession" {
							<-gate
						}
					})
					before := len(c.store.kept())
					result := make(chan error, 1)
					go func() { result <- c.try(mail(0), right, address(1)) }()
					synctest.Wait()
					c.ok(change(c))
					close(gate)
					c.refused(<-result, "Invalid credentials")
					if n := len(c.store.kept()); n > before {
						t.Errorf("%d sessions are stored, %d before", n, before)
					}
					c.agree()
				})
			})
		}
	}
}

// While a disk hangs over another change, the removal of an account cannot be stored; but
// its sessions are dead.
func TestService_RemoveAccount_turnNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gather(t, 1)
		inside, release := c.hold()
		go func() { _ = c.SetAdmin(t.Context(), admin(), mail(0), true) }()
		for inside.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		c.is(c.RemoveAccount(t.Context(), admin(), mail(0)), fault.Unavailable)
		if _, err := c.Authenticate(c.tokens[0].Access); err == nil {
			t.Error("a session of the account lives")
		}
		release()
		synctest.Wait()
	})
}
