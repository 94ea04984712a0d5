package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gatehouse/internal/fault"
)

// giftTimeout is how long a peer may take to receive some of a backup: a stick that it
// writes to may pause for as long.
const giftTimeout = 2 * time.Minute

// serveGift runs a route that answers by itself.
func (a *API) serveGift(w http.ResponseWriter, r *http.Request, rt route) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the server's is meant for requests
	err := rt.give(w, &request{Request: r, by: actorOf(r.Context())})
	if err != nil {
		a.refuse(w, r, rt.pattern(), err)
		return
	}
	a.Metrics.Request(rt.pattern(), rt.status)
}

// backup gives everything that makes this gateway itself, as an archive in clear text:
// whoever asks encrypts it before it touches a disk. An archive that breaks off lacks
// what its manifest names, so that it is not taken for a whole one.
func (a *API) backup(w http.ResponseWriter, r *request) error {
	if !a.takeBackup(r.Context()) {
		return fault.Throttle("A backup is being taken already", streamRetry)
	}
	defer a.backups.give()
	ctx, cancel := context.WithTimeout(r.Context(), lengthily)
	defer cancel()
	parcel, err := a.Backup(ctx, r.by)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/x-tar")
	control := http.NewResponseController(w)
	_ = control.Flush() // so that the peer knows that it begins; whoever left gets nothing below
	_, err = parcel.WriteTo(&gift{a: a, w: w, control: control})
	if err := errors.Join(err, parcel.Close()); err != nil {
		a.Logger.Warn("a backup broke off", "by", r.by.Name, "error", err)
		panic(http.ErrAbortHandler) // the peer sees that the answer is not whole
	}
	return nil
}

// backupWait is how long a backup waits for one before it to end: one whose taker has
// just left ends by itself.
const backupWait = time.Second

// takeBackup waits a little for its turn.
func (a *API) takeBackup(ctx context.Context) bool {
	timer := time.NewTimer(backupWait)
	defer timer.Stop()
	select {
	case a.backups <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// gift writes the answer, each piece within a time of its own, until the API is to end.
type gift struct {
	a       *API
	w       http.ResponseWriter
	control *http.ResponseController
}

func (g *gift) Write(p []byte) (int, error) {
	select {
	case <-g.a.ended:
		return 0, errors.New("the gateway is being stopped")
	default:
	}
	_ = g.control.SetWriteDeadline(time.Now().Add(giftTimeout))
	n, err := g.w.Write(p)
	if err != nil {
		return n, fmt.Errorf("giving the backup: %w", err)
	}
	return n, nil
}
