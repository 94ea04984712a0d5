package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// fleetRecords is how long the journal is when the gateway is started, in records.
const fleetRecords = 100_000

// fillJournal brings the journal of a gateway that does not run to that length, with
// unlocks such as they come.
func fillJournal(ctx context.Context, data string) error {
	db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(data, "gatehouse.db"), Boot: "bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("filling the journal: %w", err)
	}
	db.UseClock(wallClock{})
	const together = 5000
	for n := db.Latest(); n < fleetRecords && err == nil; n++ {
		db.AppendLater(site.Record{Kind: site.KindUnlock, Facts: site.Facts{
			Origin: site.Local, Account: "5a3e1776-b53a-4746-8dc1-8973cdd15048", Station: site.StationID(n%fleetSize + 1), Lock: "lock-1",
			Command: site.CommandID(fmt.Sprintf("01a1ff8e-ac79-7bb3-84b1-%012x", n)), Outcome: site.Acknowledged,
		}})
		if n%together == 0 {
			err = db.Flush(ctx)
		}
	}
	if err := errors.Join(err, db.Flush(ctx), db.Close()); err != nil {
		return fmt.Errorf("filling the journal: %w", err)
	}
	return nil
}

// wallClock is the machine's clock, taken for right.
type wallClock struct{}

// Now implements [site.Clock].
func (wallClock) Now() time.Time { return time.Now() }

// Trusted implements [site.Clock].
func (wallClock) Trusted() bool { return true }

// manager is the socket on which a service manager hears of its services
// (sd_notify(3)).
type manager struct {
	path string
	conn *net.UnixConn
}

func newManager(dir string) (*manager, error) {
	m := &manager{path: filepath.Join(dir, "notify")}
	var err error
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}); err != nil {
		return nil, fmt.Errorf("listening as the service manager: %w", err)
	}
	return m, nil
}

// ready waits for READY=1.
func (m *manager) ready() error {
	if err := m.conn.SetReadDeadline(time.Now().Add(productPatience)); err != nil {
		return fmt.Errorf("waiting for READY=1: %w", err)
	}
	for text := make([]byte, 4096); ; {
		n, err := m.conn.Read(text)
		if err != nil {
			return fmt.Errorf("waiting for READY=1: %w", err)
		}
		if strings.HasPrefix(string(text[:n]), "READY=1") {
			return nil
		}
	}
}

// timeStart starts the gateway once, from exec to READY=1, and ends it again.
func timeStart(ctx context.Context, p *product, m *manager) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := p.launch(ctx, "127.0.0.1:0", "NOTIFY_SOCKET="+m.path, "GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"); err != nil {
		return 0, err
	}
	defer p.stop()
	if err := m.ready(); err != nil {
		return 0, fmt.Errorf("starting with %d stations: %w: %s", fleetSize, err, p.process.log)
	}
	return time.Since(began), nil
}
