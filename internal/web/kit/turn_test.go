package kit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// desk is a kit with one turn at a time, whose requests name their account.
type desk struct {
	handler http.Handler
	door    chan struct{} // closed to let the door's request end

	mu     sync.Mutex // mu guards what follows
	served []string   // accounts, in the order of their turns
	all    sync.WaitGroup
}

func newDesk() *desk {
	d := &desk{door: make(chan struct{})}
	k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	k.OneTurn()
	guard := func(x *kit.Exchange) (site.Actor, error) {
		if name := x.Req.Header.Get("Account"); name != "" {
			return site.Actor{Account: site.AccountID(name)}, nil
		}
		return site.Actor{}, fault.New(fault.Unauthenticated, "Token is invalid")
	}
	d.handler = k.Handler(false, []kit.Route{
		{Method: http.MethodGet, Pattern: "/read", Guard: guard, Serve: func(x *kit.Exchange) error {
			d.note(string(x.Req.Actor.Account))
			return x.Encode(http.StatusOK, 1)
		}},
		{Method: http.MethodGet, Pattern: "/stuck", Guard: guard, Serve: func(x *kit.Exchange) error {
			d.note("stuck")
			<-d.door
			return nil
		}},
		{Method: http.MethodGet, Pattern: "/public", Serve: func(*kit.Exchange) error {
			<-d.door
			return nil
		}},
		{Method: http.MethodGet, Pattern: "/stream", Guard: guard, Serve: func(x *kit.Exchange) error {
			return x.Follow(kit.Lines(), nil, func(s *kit.Stream) error {
				wake := make(chan struct{}, 1)
				for range 3 {
					d.note("stream of " + string(x.Req.Actor.Account))
					wake <- struct{}{}
					if !s.Wait(wake) {
						return nil
					}
				}
				return nil
			})
		}},
		{Method: http.MethodPost, Pattern: "/change", Known: func(r *kit.Request) kit.Known {
			return kit.Known{Account: site.AccountID(r.Header.Get("Account")), Device: r.Header.Get("Device"), Fresh: r.Header.Get("Fresh") != ""}
		}, Serve: func(x *kit.Exchange) error {
			if x.Hurried() {
				return fault.New(fault.Unavailable, context.Cause(x.Req.Context()).Error())
			}
			<-d.door
			d.note("change of " + x.Req.Header.Get("Account"))
			return x.Encode(http.StatusOK, 1)
		}},
		{Method: http.MethodPost, Pattern: "/admin", Guard: func(x *kit.Exchange) (site.Actor, error) {
			return site.Actor{Account: site.AccountID(x.Req.Header.Get("Account")), Name: "uid 0 (root)", Origin: site.Admin}, nil
		}, Serve: func(x *kit.Exchange) error {
			<-d.door
			return x.Encode(http.StatusOK, 1)
		}},
		{Method: http.MethodPost, Pattern: "/door", Guard: guard, Door: true, Serve: func(x *kit.Exchange) error {
			<-d.door
			if x.Req.Header.Get("Fails") != "" {
				return errors.New("no such door")
			}
			d.note("door")
			return x.Encode(http.StatusOK, 1)
		}},
		{Method: http.MethodPost, Pattern: "/slow", Guard: guard, Door: true, Serve: func(x *kit.Exchange) error {
			x.Heard(x.Req.Context(), time.Now().Add(time.Minute))
			<-d.door
			return nil
		}},
	})
	return d
}

func (d *desk) note(who string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.served = append(d.served, who)
}

// ask sends a request of an account, "" for none, and waits until nothing moves.
func (d *desk) ask(method, path, account string, headers ...string) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(context.Background(), method, path, http.NoBody)
	req.Header.Set("Account", account)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	d.all.Go(func() { d.handler.ServeHTTP(out, req) })
	synctest.Wait()
	return out
}

func (d *desk) expect(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.served, want) {
		t.Errorf("served %q, want %q", d.served, want)
	}
}

// While a door is being opened no list is computed and no refusal answered for any caller;
// after it accounts have turns, however much one of them asks.
func TestRoute_Door_readsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.ask(http.MethodPost, "/door", "owner")
		for range 3 {
			d.ask(http.MethodGet, "/read", "greedy")
		}
		refused := d.ask(http.MethodGet, "/read", "")
		unknown := d.ask(http.MethodGet, "/nothing", "")
		badDoor := d.ask(http.MethodPost, "/door", "")
		d.ask(http.MethodGet, "/stream", "follower")
		d.ask(http.MethodGet, "/read", "other")
		d.expect(t)
		for _, answer := range []*httptest.ResponseRecorder{refused, unknown, badDoor} {
			if answer.Body.Len() > 0 {
				t.Errorf("answered beside a door: %d", answer.Code)
			}
		}
		close(d.door)
		d.all.Wait()
		d.expect(t, "door", "greedy", "stream of follower", "other", "greedy", "stream of follower", "greedy", "stream of follower")
		if refused.Code != http.StatusUnauthorized || unknown.Code != http.StatusNotFound || badDoor.Code != http.StatusUnauthorized {
			t.Errorf("refusals: %d %d %d", refused.Code, unknown.Code, badDoor.Code)
		}
	})
}

// Reads do not wait for a slow station.
func TestExchange_Heard_readsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.ask(http.MethodPost, "/slow", "owner")
		d.ask(http.MethodGet, "/read", "other")
		d.expect(t, "other")
		close(d.door)
		d.all.Wait()
	})
}

// An unlock waits for no turn, whatever holds one.
func TestRoute_Door_waitsForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.ask(http.MethodGet, "/stuck", "greedy")
		d.ask(http.MethodGet, "/read", "greedy")
		d.expect(t, "stuck")
		opened := d.ask(http.MethodPost, "/door", "owner")
		close(d.door)
		d.all.Wait()
		if opened.Code != http.StatusOK || !strings.HasPrefix(opened.Body.String(), "1") {
			t.Errorf("the unlock: %d %s", opened.Code, opened.Body)
		}
	})
}

// A turn is over after a tenth of a second: who does not take an answer keeps nobody
// waiting; and a door that takes long holds up reads for a second.
func TestExchange_turnIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		start := time.Now()
		d.ask(http.MethodGet, "/stuck", "greedy")
		d.ask(http.MethodGet, "/read", "other")
		d.expect(t, "stuck")
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		d.expect(t, "stuck", "other")
		d.ask(http.MethodPost, "/door", "owner")
		d.ask(http.MethodGet, "/read", "other")
		d.expect(t, "stuck", "other")
		time.Sleep(time.Until(start.Add(1200 * time.Millisecond)))
		synctest.Wait()
		d.expect(t, "stuck", "other", "other")
		close(d.door)
		d.all.Wait()
	})
}

// The turn of a stranger is short: there may be many.
func TestExchange_turnOfStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.ask(http.MethodGet, "/public", "")
		d.ask(http.MethodGet, "/read", "other")
		d.expect(t)
		time.Sleep(11 * time.Millisecond)
		synctest.Wait()
		d.expect(t, "other")
		close(d.door)
		d.all.Wait()
	})
}

// One account that ended a session again and again, while the disk did not answer, had every
// request that the gateway works on, and the doors of others were refused. Its devices do not
// keep each other from theirs.
func TestRoute_changesOfOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		for range 22 {
			d.ask(http.MethodPost, "/change", "greedy")
			time.Sleep(11 * time.Millisecond)
		}
		refused := d.ask(http.MethodPost, "/change", "greedy")
		device := d.ask(http.MethodPost, "/change", "greedy", "Device", "another")
		other := d.ask(http.MethodPost, "/change", "other")
		door := d.ask(http.MethodPost, "/door", "greedy")
		close(d.door)
		d.all.Wait()
		if refused.Code != http.StatusServiceUnavailable || device.Code != http.StatusOK || other.Code != http.StatusOK || door.Code != http.StatusOK {
			t.Errorf("one more change %d, that of another device %d, of another account %d, a door %d", refused.Code, device.Code, other.Code, door.Code)
		}
		again := d.ask(http.MethodPost, "/change", "greedy")
		if d.all.Wait(); again.Code != http.StatusOK {
			t.Errorf("after all have ended: %d", again.Code)
		}
	})
}

// Of 63 networks of strangers none keeps another from its turn, and none that is known.
func TestExchange_turnsOfManyStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.ask(http.MethodPost, "/door", "owner")
		var flood []*httptest.ResponseRecorder
		from := func(network int) *httptest.ResponseRecorder {
			out, req := httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/change", http.NoBody)
			req.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", network)
			d.all.Go(func() { d.handler.ServeHTTP(out, req) })
			synctest.Wait()
			return out
		}
		for n := range 256 {
			flood = append(flood, from(n%63))
		}
		unknown, known := from(100), d.ask(http.MethodPost, "/change", "known")
		close(d.door)
		d.all.Wait()
		served := 0
		for _, answer := range flood {
			if answer.Code == http.StatusOK {
				served++
			}
		}
		if unknown.Code != http.StatusOK || known.Code != http.StatusOK || served != 63 {
			t.Errorf("a network of its own %d, a known one %d, %d of the others", unknown.Code, known.Code, served)
		}
	})
}

// Of strangers in many networks, of accounts and of administrators, as many as can be while no
// change ends, none keeps those of another class from theirs, or a door.
func TestRoute_changesOfClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		flood := func(path, account string) {
			for n := range 300 {
				req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, http.NoBody)
				req.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", n%200)
				if account != "" {
					req.Header.Set("Account", fmt.Sprint(account, n))
				}
				d.all.Go(func() { d.handler.ServeHTTP(httptest.NewRecorder(), req) })
				synctest.Wait()
				time.Sleep(11 * time.Millisecond) // its turn is over
			}
		}
		flood("/change", "")
		known := d.ask(http.MethodPost, "/change", "known")
		flood("/change", "account")
		administrator, root := d.ask(http.MethodPost, "/admin", "ada"), d.ask(http.MethodPost, "/admin", "")
		flood("/admin", "administrator")
		door := d.ask(http.MethodPost, "/door", "owner")
		close(d.door)
		d.all.Wait()
		for name, answer := range map[string]*httptest.ResponseRecorder{"an account": known, "an administrator": administrator, "root": root, "a door": door} {
			if answer.Code != http.StatusOK {
				t.Errorf("%s: %d", name, answer.Code)
			}
		}
	})
}

// Of 200 addresses of one network that have failed, none keeps another from logging in.
func TestExchange_turnsOfOneNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.ask(http.MethodPost, "/door", "owner")
		from := func(address, fresh string) *httptest.ResponseRecorder {
			out, req := httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/change", http.NoBody)
			req.RemoteAddr = "[" + address + "]:1"
			req.Header.Set("Fresh", fresh)
			d.all.Go(func() { d.handler.ServeHTTP(out, req) })
			synctest.Wait()
			return out
		}
		for n := range 200 {
			from(fmt.Sprintf("2001:db8::1:%x", n), "")
		}
		newcomer, another := from("2001:db8::2", "yes"), from("192.0.2.1", "")
		close(d.door)
		d.all.Wait()
		if newcomer.Code != http.StatusOK || another.Code != http.StatusOK {
			t.Errorf("a newcomer %d, another network %d", newcomer.Code, another.Code)
		}
	})
}

// A request whose client has gone waits for no turn.
func TestExchange_turnOfWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.ask(http.MethodPost, "/door", "owner")
		ctx, cancel := context.WithCancel(t.Context())
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/read", http.NoBody)
		req.Header.Set("Account", "gone")
		gone := make(chan struct{})
		go func() { defer close(gone); d.handler.ServeHTTP(httptest.NewRecorder(), req) }()
		synctest.Wait()
		cancel()
		<-gone
		close(d.door)
		d.all.Wait()
		d.expect(t, "door")
	})
}
