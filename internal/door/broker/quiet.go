package broker

import (
	"context"
	"log/slog"

	"gatehouse/internal/board/systemlog"
)

// quiet takes mochi's log. Of a line it keeps the message and the error, both
// sentences of mochi's own; attributes are dropped, because whole packets stand in
// them, with passwords and payloads.
type quiet struct{ ledger *systemlog.Limiter }

// Enabled implements [slog.Handler].
func (quiet) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (q quiet) Handle(_ context.Context, line slog.Record) error {
	said := ""
	line.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && a.Key == "error" {
			said = err.Error()
		}
		return true
	})
	q.ledger.Warn("the mqtt library complains", "message", line.Message, "error", said)
	return nil
}

// WithAttrs implements [slog.Handler]; it drops them.
func (q quiet) WithAttrs([]slog.Attr) slog.Handler { return q }

// WithGroup implements [slog.Handler]; it has no effect.
func (q quiet) WithGroup(string) slog.Handler { return q }
