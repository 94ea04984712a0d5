package kit_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// The streams of accounts leave room for administrators, and for the command line.
func TestExchange_Follow_quotas(t *testing.T) {
	k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	open := func(account site.AccountID, origin site.Origin, within func()) (status int) {
		guard := func(*kit.Exchange) (site.Actor, error) { return site.Actor{Account: account, Origin: origin}, nil }
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
