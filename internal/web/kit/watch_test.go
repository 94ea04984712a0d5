package kit_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// still are stations of which nothing changes.
type still struct{}

func (still) State(site.StationID) (site.StationState, bool)             { return site.StationState{}, true }
func (still) EventsSince(uint64, site.StationID) ([]station.Event, bool) { return nil, false }
func (still) Latest() uint64                                             { return 0 }
func (still) Subscribe() (<-chan struct{}, func())                       { return nil, func() {} }
func (still) Now() time.Time                                             { return time.Now() }
func (still) Trusted() bool                                              { return true }

// A watch that has sent everything keeps no copy of it.
func TestExchange_Watch_memory(t *testing.T) {
	const watchers, stations, most = 50, 1000, 50 << 10
	enrolled := make([]kit.Sight, stations)
	for i := range enrolled {
		enrolled[i].ID = site.StationID(i + 1)
	}
	line := strings.Repeat("x", 300)
	route := kit.Route{Method: http.MethodGet, Pattern: "/", Serve: func(x *kit.Exchange) error {
		return x.Watch(kit.Watch{
			Stations: still{}, Clock: still{},
			Visible: func() []kit.Sight { return enrolled },
			Line:    func(kit.Sight, site.StationState) any { return line },
		})
	}}
	synctest.Test(t, func(t *testing.T) {
		k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
		handler := k.Handler(false, []kit.Route{route})
		ctx, cancel := context.WithCancel(t.Context())
		before := heap()
		var open sync.WaitGroup
		for range watchers {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
			open.Go(func() { handler.ServeHTTP(nowhere{}, r) })
		}
		synctest.Wait()
		if each := (heap() - before) / watchers; each > most {
			t.Errorf("a watch of %d stations keeps %d KB", stations, each>>10)
		}
		cancel()
		open.Wait()
	})
}

// heap returns how much is in use, in bytes.
func heap() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc) //nolint:gosec // fits
}
