package kit

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"gatehouse/internal/fault"
)

const (
	// lookAfter is how often an upload is looked after: within a second of its end, the
	// rights of its caller end the upload too.
	lookAfter = 250 * time.Millisecond
	// uploadSilence is how long an upload may pause, and uploadLimit how long it may take.
	uploadSilence = 30 * time.Second
	uploadLimit   = time.Hour
)

// Receive has store read the body of a route with Upload to its end, in another goroutine.
// The upload ends early, and store's next read fails, when the client has gone or is
// silent, when it takes too long, when the kit drains, or when the guard of the route no
// longer admits the caller; that is an error even where store has read everything. A body
// larger than the route's MaxBody is an error of a read too. A store that still does not return, because the disk hangs, is left behind. The
// caller bounds how many uploads there are at once.
func (x *Exchange) Receive(store func(io.Reader) error) error {
	x.work()
	x.slot.Leave() // like a stream, it is no longer counted among the requests in flight
	control := http.NewResponseController(x.w)
	_ = control.SetReadDeadline(time.Time{}) // the server's is meant for requests
	x.Extend(uploadLimit + WriteTimeout)
	ctx, cancel := context.WithCancel(x.Req.Context())
	defer cancel()
	body := &arrival{body: x.Req.Body, left: x.most, most: x.most}
	body.heard.Store(time.Now().UnixNano())
	stored := make(chan error, 1)
	go func() {
		_, err := Await(ctx, func(context.Context) (struct{}, error) { return struct{}{}, store(body) })
		stored <- err
	}()
	look := time.NewTicker(lookAfter)
	defer look.Stop()
	var cause error
	for {
		select {
		case err := <-stored:
			x.Extend(WriteTimeout)
			if err == nil {
				cause = x.interrupted(body)
			}
			return cmp.Or(cause, err)
		case <-look.C:
			if cause == nil {
				if cause = x.interrupted(body); cause != nil {
					_ = control.SetReadDeadline(time.Unix(1, 0)) // ends a read under way
					cancel()
				}
			}
		}
	}
}

// interrupted returns why an upload must end, nil while it may continue.
func (x *Exchange) interrupted(body *arrival) error {
	silent := time.Since(time.Unix(0, body.heard.Load()))
	switch {
	case !x.Admitted():
		return errToken()
	case x.Draining():
		return fault.New(fault.Unavailable, "The gateway is being stopped")
	case silent > uploadSilence && !body.done.Load(), time.Since(x.Req.Start) > uploadLimit:
		return fault.New(fault.Invalid, "The upload takes too long")
	}
	return nil
}

// arrival is a body that arrives.
type arrival struct {
	body       io.Reader
	left, most int64        // bytes that it may still have, of so many
	heard      atomic.Int64 // when something arrived, in nanoseconds since 1970
	done       atomic.Bool  // whether all of it did
}

// Read implements [io.Reader].
func (a *arrival) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	a.heard.Store(time.Now().UnixNano())
	a.left -= int64(n)
	switch {
	case a.left < 0:
		return 0, errTooLarge(a.most)
	case errors.Is(err, io.EOF):
		a.done.Store(true)
	case err != nil: // net/http has io.ErrUnexpectedEOF, which io.ReadFull has at a good end
		err = fault.New(fault.Invalid, "The upload did not arrive whole")
	}
	return n, err
}
