package kit

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// errorLogsPerSecond and errorLogBurst bound the log lines of failing requests:
	// while the storage fails, every login of an outsider is one.
	errorLogsPerSecond = 1
	errorLogBurst      = 20
)

// Request is what a handler reads of a request. A copy may be used after the request has
// been answered.
type Request struct {
	*http.Request
	Actor site.Actor // as the guard of the route returned it
	Start time.Time  // when the request arrived: where it opens a door, in the kernel
	TLS   bool       // whether it came over TLS

	body   []byte // a JSON object; nil: there is none
	fields fields // of the body
}

// Remote returns the address of the client; not valid if it has none.
func (r *Request) Remote() netip.Addr {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return remote.Addr().Unmap()
}

// Exchange is one request and its answer. It is the [http.ResponseWriter] of its
// handler, so that it knows what was sent. For the handler's goroutine alone.
type Exchange struct {
	Req Request

	kit     *Kit
	w       http.ResponseWriter
	guard   Guard
	pattern string // of the route, for logs and metrics
	most    int64  // bytes of the body
	level   slog.Level
	status  int         // 0 until the header is written
	cause   error       // why the request failed, for the log
	broken  bool        // the answer is not whole
	facts   []slog.Attr // more for the log

	receipt time.Duration // by the clock of the kit's beat
	conn    *Conn         // without a [net.Conn] where the request came on no connection of ours
	slot    limit.Slot    // among the requests in flight
	working bool          // the gateway works on it
	counted *callers      // in the quota of changes; nil: it is not
	hurried bool          // see [Exchange.Hurried]
	known   Known         // as the route found it
	urgent  bool          // it opens a door: handshakes and turns wait for it
	stream  bool          // its answer lasts
	turn    *turn         // nil: it had none
	heard   time.Time     // when the end of its client has arrived, if the client had gone before; zero: it has
}

// begin sets what every response carries. Cache-Control is everywhere, because nearly
// everything here is about one account (contract, section 1).
func (k *Kit) begin(w http.ResponseWriter, r *http.Request, tls bool) *Exchange {
	x := &Exchange{kit: k, w: w, Req: Request{Request: r, Start: time.Now(), TLS: tls}, pattern: "unknown", level: slog.LevelDebug}
	var ok bool
	if x.conn, ok = r.Context().Value(connKey{}).(*Conn); !ok {
		x.conn = &Conn{}
	}
	if x.conn.in != nil {
		x.receipt = x.conn.in.begin()
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if k.isDraining() {
		h.Set("Connection", "close")
	}
	return x
}

// finish is deferred: it answers for a handler that panicked, logs and counts.
func (x *Exchange) finish() {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		x.broken = true
	default:
		x.fail(panicError(v))
	}
	x.leave()
	x.log()
	x.kit.metrics.Request(x.pattern, x.status)
	if x.broken {
		panic(http.ErrAbortHandler) // the client must see that the response is not whole
	}
}

// panicError returns the error of a panic, for the log: with its place, but without its
// words, which may quote the request.
func panicError(v any) error {
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	return fmt.Errorf("panic: %s\n%s", what, debug.Stack())
}

// log writes the line of the request, if its level is enabled.
func (x *Exchange) log() {
	level, message := slog.LevelDebug, "request answered"
	switch {
	case x.cause != nil && (x.status >= http.StatusInternalServerError || x.broken):
		level, message = slog.LevelError, "request failed"
	case x.status == http.StatusOK:
		level = x.level
	}
	ctx, logger := x.Req.Context(), x.kit.logger
	if !logger.Enabled(ctx, level) || (level == slog.LevelError && !x.kit.errorLog.Allow()) {
		return
	}
	x.Note(slog.String("route", x.pattern), slog.Int("status", x.status), slog.Duration("took", time.Since(x.Req.Start)),
		slog.String("remote", x.Req.RemoteAddr), slog.Bool("tls", x.Req.TLS))
	switch by := x.Req.Actor; {
	case by.Account != "":
		x.Note(slog.String("account", string(by.Account)))
	case by.Name != "": // on the admin socket
		x.Note(slog.String("by", by.Name))
	}
	if level == slog.LevelError {
		x.Note(slog.String("error", x.cause.Error()))
	}
	logger.LogAttrs(ctx, level, message, x.facts...)
}

// Note adds facts to the log line of the request.
func (x *Exchange) Note(facts ...slog.Attr) {
	if x.facts == nil {
		x.facts = make([]slog.Attr, 0, 12) // an unlock has 11 at most
	}
	x.facts = append(x.facts, facts...)
}

// Refused counts why a request was refused; reason is a constant of the caller.
func (x *Exchange) Refused(reason string) { x.kit.metrics.Refused(reason) }

// Header implements [http.ResponseWriter].
func (x *Exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements [http.ResponseWriter].
func (x *Exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK {
		x.answering(status)
	}
	x.w.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (x *Exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.answering(http.StatusOK)
	}
	return x.w.Write(p)
}

// answering notes that the answer begins.
func (x *Exchange) answering(status int) {
	x.status = status
	if x.conn.in != nil && x.Req.ProtoMajor == 1 {
		x.conn.in.answer()
	}
}

// Extend sets how long from now on the client may take to receive what is written.
func (x *Exchange) Extend(limit time.Duration) {
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(limit)) // fails only in tests
}

// Unwrap lets [http.ResponseController] through.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.w }
