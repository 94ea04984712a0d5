package systemlog

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Ledger logs at a bounded rate what the outside can cause at any rate. Safe for
// concurrent use.
type Ledger struct {
	log     *slog.Logger
	pace    *rate.Limiter
	skipped atomic.Int64 // since the last line
}

// NewLedger returns one that writes burst lines at once, and after that one every so
// often.
func NewLedger(log *slog.Logger, every time.Duration, burst int) *Ledger {
	return &Ledger{log: log, pace: rate.NewLimiter(rate.Every(every), burst)}
}

// Info logs unless there was too much already; what was left out is counted in the
// next line.
func (l *Ledger) Info(message string, attrs ...any) { l.write(slog.LevelInfo, message, attrs) }

// Warn is [Ledger.Info] at the level Warn.
func (l *Ledger) Warn(message string, attrs ...any) { l.write(slog.LevelWarn, message, attrs) }

func (l *Ledger) write(level slog.Level, message string, attrs []any) {
	if !l.pace.Allow() {
		l.skipped.Add(1)
		return
	}
	if n := l.skipped.Swap(0); n > 0 {
		attrs = append(attrs, "skipped", n)
	}
	l.log.Log(context.Background(), level, message, attrs...)
}
