package kit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// The streams of accounts leave room for administrators, and for the command line.
func TestExchange_Follow_quotas(t *testing.T) { synctest.Test(t, expectQuotas) }

func expectQuotas(t *testing.T) {
	k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	open := func(account site.AccountID, origin site.Origin, within func()) (status int) {
		guard := func(*kit.Exchange) (site.Actor, error) {
			return site.Actor{Account: account, Origin: origin, Name: "uid 0 (root)"}, nil
		}
		follow := func(x *kit.Exchange) error {
			return x.Follow(kit.Lines(), nil, func(*kit.Stream) error { within(); return nil })
		}
		w := httptest.NewRecorder()
		k.Handler(false, []kit.Route{{Method: http.MethodGet, Pattern: "/", Guard: guard, Serve: follow}}).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code
	}
	nothing := func() {}
	full := func() {
		if status := open("another", site.Local, nothing); status != http.StatusTooManyRequests {
			t.Errorf("another account: %d", status)
		}
		if status := open("ada", site.Admin, nothing); status != http.StatusOK {
			t.Errorf("an administrator: %d", status)
		}
		if status := open("", site.Admin, nothing); status != http.StatusOK {
			t.Errorf("the command line: %d", status)
		}
	}
	for n := range kit.MaxStreams {
		within, account := full, site.AccountID(fmt.Sprint(n/kit.MaxStreamsPerAccount))
		full = func() {
			if status := open(account, site.Local, within); status != http.StatusOK {
				t.Errorf("account %s: %d", account, status)
			}
		}
	}
	full()
}

// Streams that could send all the time share a rate, each its part of it; what they begin
// with is not counted.
func TestStream_Wait_rate(t *testing.T) {
	if onOneProcessor(t) { // on two, the race detector crashes (golang/go#78156)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var open sync.WaitGroup
		var sent [3]int
		for i := range sent {
			guard := func(*kit.Exchange) (site.Actor, error) { return site.Actor{Name: "uid 0 (root)"}, nil }
			route := kit.Route{Method: http.MethodGet, Pattern: "/", Guard: guard, Serve: func(x *kit.Exchange) error {
				return x.Follow(kit.Lines(), nil, func(s *kit.Stream) error {
					always := make(chan struct{})
					close(always)
					for range 5000 {
						if err := s.SendLine(struct{}{}); err != nil {
							return err
						}
					}
					for s.Wait(always) {
						if err := s.SendLine(struct{}{}); err != nil {
							return err
						}
						sent[i]++
					}
					return nil
				})
			}}
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
			open.Go(func() { k.Handler(false, []kit.Route{route}).ServeHTTP(nowhere{}, r) })
		}
		<-time.After(100 * time.Second)
		cancel()
		open.Wait()
		for i, n := range sent {
			if n < 30_000 || n > 40_000 {
				t.Errorf("stream %d of %d has sent %d lines in 100 s", i+1, len(sent), n)
			}
		}
	})
}

// Streams of accounts that are sent much keep no administrator waiting.
func TestStream_Wait_administrators(t *testing.T) {
	if onOneProcessor(t) { // on two, the race detector crashes (golang/go#78156)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var open sync.WaitGroup
		var sent int // to the administrator
		follow := func(account int, origin site.Origin, lines int) {
			guard := func(*kit.Exchange) (site.Actor, error) {
				return site.Actor{Account: site.AccountID(fmt.Sprint(account)), Origin: origin}, nil
			}
			serve := func(x *kit.Exchange) error {
				return x.Follow(kit.Lines(), nil, func(s *kit.Stream) error {
					always := make(chan struct{})
					close(always)
					for s.Wait(always) {
						for range lines {
							if err := s.SendLine(struct{}{}); err != nil {
								return err
							}
						}
						if origin == site.Admin {
							sent++
							<-time.After(time.Second)
						}
					}
					return nil
				})
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
			open.Go(func() {
				k.Handler(false, []kit.Route{{Method: http.MethodGet, Pattern: "/", Guard: guard, Serve: serve}}).ServeHTTP(nowhere{}, r)
			})
		}
		for n := range 256 {
			follow(n, site.Local, 64)
		}
		follow(-1, site.Admin, 1)
		<-time.After(30*time.Second + time.Millisecond)
		cancel()
		open.Wait()
		if sent < 30 {
			t.Errorf("the administrator was sent %d lines in 30 s", sent)
		}
	})
}

// nowhere is a response that is not kept.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Flush()                      {}
