package systemlog

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Limiter logs events at a bounded rate that clients can cause at any rate. Safe for
// concurrent use.
type Limiter struct {
	log     *slog.Logger
	pace    *rate.Limiter
	skipped atomic.Int64 // since the last line
}

// NewLimiter returns a limiter that writes burst lines at once, and after that one per
// interval.
func NewLimiter(log *slog.Logger, every time.Duration, burst int) *Limiter {
	return &Limiter{log: log, pace: rate.NewLimiter(rate.Every(every), burst)}
}

// Info logs unless the rate is exceeded; the next line counts what was left out.
func (l *Limiter) Info(message string, attrs ...any) { l.write(slog.LevelInfo, message, attrs) }

// Warn is [Limiter.Info] at the level Warn.
func (l *Limiter) Warn(message string, attrs ...any) { l.write(slog.LevelWarn, message, attrs) }

func (l *Limiter) write(level slog.Level, message string, attrs []any) {
	if !l.pace.Allow() {
		l.skipped.Add(1)
		return
	}
	if n := l.skipped.Swap(0); n > 0 {
		attrs = append(attrs, "skipped", n)
	}
	l.log.Log(context.Background(), level, message, attrs...)
}
