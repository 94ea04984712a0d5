package kit

import (
	"log/slog"
	"net/http"
	"time"
)

const (
	// headerTimeout is how long a request's header, and before it the TLS handshake,
	// may take.
	headerTimeout = 5 * time.Second
	// readTimeout is how long a whole request may take to arrive.
	readTimeout = 5 * time.Second
	// answerTimeout is how long a request may take from its header to the end of its
	// response; longer than any command lives. What lasts longer sets its own.
	answerTimeout = 75 * time.Second
	// maxHeader bounds a request's header, in bytes (net/http adds 4 KiB).
	maxHeader = 16 << 10
	// maxHTTP2Streams bounds the requests at once on one HTTP/2 connection, which all tabs
	// of a browser share: each follows the stations, some the journal too.
	maxHTTP2Streams = 16
	// maxHTTP2Frame and maxHTTP2Buffer bound the received bytes that one HTTP/2
	// connection buffers: they are the least that HTTP/2 allows (RFC 9113, 6.5.2 and
	// 6.9.2). One stream may use all of it: clients send so much of a large body before
	// they have read our settings, and would be refused for it.
	maxHTTP2Frame  = 16 << 10
	maxHTTP2Buffer = 64 << 10
)

// NewServer returns a server for a handler of [Kit.Handler], bounded in time and size.
func (k *Kit) NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       -1, // none: a [Service] evicts idle connections when it is full
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxHTTP2Streams, MaxReadFrameSize: maxHTTP2Frame,
			MaxReceiveBufferPerConnection: maxHTTP2Buffer, MaxReceiveBufferPerStream: maxHTTP2Buffer,
		},
		ConnContext: withConn, ConnState: noteHeader,
		ErrorLog: slog.NewLogLogger(k.logger.Handler(), slog.LevelDebug), // outsiders cause its lines at will

		DisableGeneralOptionsHandler: true, // "OPTIONS *" gets our answer
	}
}
