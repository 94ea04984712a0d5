package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/site"
	"gatehouse/internal/web/deadline"
)

const (
	// errorLogsPerSecond and errorLogBurst bound the log lines of failing requests:
	// while the storage fails, every login of an outsider is one.
	errorLogsPerSecond = 1
	errorLogBurst      = 20
	// maxBuffer is about how much is written at once and kept for the next request,
	// in bytes.
	maxBuffer = 16 << 10
)

func newErrorLimiter() *rate.Limiter { return rate.NewLimiter(errorLogsPerSecond, errorLogBurst) }

// exchange is one request and its response on the way through a handler. It is the
// [http.ResponseWriter] that handlers write to, so that it knows what went out.
// Exchanges are reused: none may be kept past the handler.
type exchange struct {
	api     *API
	w       http.ResponseWriter
	r       *http.Request
	pattern string // of the resource; "" for none
	level   slog.Level
	tls     bool
	start   time.Time
	actor   site.Actor
	status  int         // 0 until the header is written
	cause   error       // why it is a 5xx, for the log
	facts   []slog.Attr // more for the log
	buf     []byte      // room for the body
	turn    turn
}

// begin sets what every response carries. Cache-Control stands everywhere, because
// nearly everything here is about one account (contract, section 1).
func (a *API) begin(w http.ResponseWriter, r *http.Request, tls bool) *exchange {
	x := a.exchanges.Get().(*exchange)
	*x = exchange{
		api: a, w: w, r: r, tls: tls, level: slog.LevelDebug, start: time.Now(),
		facts: x.facts[:0], buf: x.buf[:0],
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.isDraining() {
		h.Set("Connection", "close")
	}
	return x
}

// finish is deferred: it answers for a handler that panicked, logs, counts, and
// gives the exchange back.
func (x *exchange) finish() {
	v := recover()
	broken := v != nil && !x.panicked(v)
	x.leave()
	x.log()
	x.api.metrics.Request(x.label(), x.status)
	clear(x.facts)
	if cap(x.buf) > 2*maxBuffer {
		x.buf = nil
	}
	*x = exchange{api: x.api, facts: x.facts, buf: x.buf}
	x.api.exchanges.Put(x)
	if broken {
		panic(http.ErrAbortHandler) // the client must see that the response is not whole
	}
}

// panicked logs a panic, with the place but without its words, which may quote the
// request. It answers 500, or gives false where something has been answered already.
func (x *exchange) panicked(v any) bool {
	if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
		return false
	}
	stack := debug.Stack
	if p, ok := v.(*deadline.Panic); ok {
		v, stack = p.Value, func() []byte { return p.Stack }
	}
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	if x.api.errorLog.Allow() {
		x.api.logger.LogAttrs(x.r.Context(), slog.LevelError, "request panicked",
			slog.String("route", x.label()), slog.String("panic", what), slog.String("stack", string(stack())))
	}
	if x.status != 0 {
		return false
	}
	x.refuse(http.StatusInternalServerError, "Internal error")
	return true
}

// label names the route for logs and metrics.
func (x *exchange) label() string {
	if x.pattern == "" {
		return "unknown"
	}
	return x.pattern
}

// log writes the line of the request, if its level is wanted.
func (x *exchange) log() {
	level, message := slog.LevelDebug, "request answered"
	switch {
	case x.cause != nil && x.status >= http.StatusInternalServerError:
		level, message = slog.LevelError, "request failed"
	case x.status == http.StatusOK:
		level = x.level
	}
	ctx, logger := x.r.Context(), x.api.logger
	if !logger.Enabled(ctx, level) || (level == slog.LevelError && !x.api.errorLog.Allow()) {
		return
	}
	x.note(slog.String("route", x.label()), slog.Int("status", x.status), slog.Duration("took", time.Since(x.start)),
		slog.String("remote", x.r.RemoteAddr), slog.Bool("tls", x.tls))
	if x.actor.Account != "" {
		x.note(slog.String("account", string(x.actor.Account)))
	}
	if level == slog.LevelError {
		x.note(slog.String("error", x.cause.Error()))
	}
	logger.LogAttrs(ctx, level, message, x.facts...)
}

// note adds facts to the log line of the request.
func (x *exchange) note(facts ...slog.Attr) { x.facts = append(x.facts, facts...) }

// Header implements [http.ResponseWriter].
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements [http.ResponseWriter].
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK {
		x.status = status
	}
	x.w.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	return x.w.Write(p)
}

// Flush implements [http.Flusher], for the handler of the admin API.
func (x *exchange) Flush() { _ = http.NewResponseController(x.w).Flush() }

// Unwrap lets [http.ResponseController] through.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }
