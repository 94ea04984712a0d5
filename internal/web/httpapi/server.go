package httpapi

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

const (
	// headerTimeout is how long a request's header, and before it the TLS handshake,
	// may take.
	headerTimeout = 5 * time.Second
	// readTimeout is how long a whole request may take to arrive.
	readTimeout = 5 * time.Second
	// answerTimeout is how long a request may take from its header to the end of its
	// response; longer than any command lives. What lasts longer sets its own.
	answerTimeout = 60 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 120 * time.Second
	// maxHeader bounds a request's header, in bytes (net/http adds 4 KiB).
	maxHeader = 16 << 10
	// maxHTTP2Streams bounds the requests at once on one HTTP/2 connection.
	maxHTTP2Streams = 8
	// maxHTTP2Frame and maxHTTP2Buffer bound the received bytes that one HTTP/2
	// connection buffers: they are the least that HTTP/2 allows (RFC 9113, 6.5.2 and
	// 6.9.2). A stream may send a whole body.
	maxHTTP2Frame  = 16 << 10
	maxHTTP2Buffer = 64 << 10
	maxHTTP2Body   = maxBody + 4<<10
)

// NewServer gives a server for a handler of [API.Handler], bounded in time and size.
// Serve it on a listener of [LimitListener], which also ends idle connections. Before
// shutting it down, call [API.Drain]: event streams last until then.
func NewServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       -1, // see limitConn.idle
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxHTTP2Streams, MaxReadFrameSize: maxHTTP2Frame,
			MaxReceiveBufferPerConnection: maxHTTP2Buffer, MaxReceiveBufferPerStream: maxHTTP2Body,
		},
		ConnContext: withConn,
		ConnState:   track,
		ErrorLog:    log.New(&serverLog{logger, newErrorLimiter()}, "", 0),

		DisableGeneralOptionsHandler: true, // "OPTIONS *" gets our answer
	}
}

// serverLog takes what net/http has to say, such as failed handshakes, which an
// outsider can cause at will: at debug level and at a bounded rate.
type serverLog struct {
	logger *slog.Logger
	limit  *rate.Limiter
}

// Write implements io.Writer; net/http writes one line at a time.
func (l *serverLog) Write(line []byte) (int, error) {
	const most = 500 // a panic would bring its whole stack
	if l.limit.Allow() {
		text := string(bytes.TrimSpace(line[:min(len(line), most)]))
		l.logger.LogAttrs(context.Background(), slog.LevelDebug, "http server", slog.String("detail", text))
	}
	return len(line), nil
}
