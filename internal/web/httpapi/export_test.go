package httpapi

import (
	"time"
	"weak"

	"gatehouse/internal/board/admission"
)

// Routes lists method and pattern of every line of the route table.
func Routes(a *API) [][2]string {
	var out [][2]string
	for _, r := range a.routes() {
		out = append(out, [2]string{r.method, r.pattern})
	}
	return out
}

// What tests have to know of the bounds.
const (
	MaxBody              = maxBody
	MaxStreams           = maxStreams
	MaxStreamsPerAccount = maxStreamsPerAccount
	ErrorLogBurst        = errorLogBurst
	HeartbeatEvery       = heartbeatEvery
	WriteTimeout         = writeTimeout
)

// JSONAnswer shows what becomes of a write to a connection.
func JSONAnswer(p []byte) ([]byte, bool) { return jsonAnswer(p) }

// Conns returns for each connection in a crowd whether its memory is still in use.
func Conns(c *admission.Crowd) (inUse []func() bool) {
	for _, g := range c.Guests() {
		conn := weak.Make(g.(*limitConn))
		inUse = append(inUse, func() bool { return conn.Value() != nil })
	}
	return inUse
}

// SetPatience sets how long connections may be idle.
func (l *LimitedListener) SetPatience(d time.Duration) { l.patience = d }

// Requests returns how many requests have a place among those under way.
func (a *API) Requests() int {
	open, _ := a.requests.Count()
	return open
}
