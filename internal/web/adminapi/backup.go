package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// pieceTimeout is how long a peer may take to receive some of a backup: a stick that it
// writes to may pause for as long.
const pieceTimeout = 2 * time.Minute

// backup answers with everything that makes this gateway itself, as an archive in clear
// text: the client encrypts it before it reaches a disk. An archive that breaks off lacks
// what its manifest names, so that it is not mistaken for a whole one.
func (a *API) backup(x *kit.Exchange) error {
	if x.Req.ContentLength != 0 { // without a deadline, net/http would wait for it
		return fault.New(fault.Invalid, "A request for a backup has no body")
	}
	return a.send(x, &a.backingUp, "application/x-tar", "gatehouse.tar", a.Backup)
}

// sealedBackup answers with a backup that is encrypted with the passphrase in the body,
// as the command line writes one without the configuration. An account confirms its
// password: a session that was left open or stolen takes no backup.
func (a *API) sealedBackup(x *kit.Exchange) error {
	in, err := kit.Decode[BackupRequest](&x.Req)
	if err != nil {
		return err
	}
	if by := x.Req.Actor; by.Account != "" {
		if in.Password == "" {
			return fault.New(fault.Invalid, "The password of your account is missing: send it as \"password\"")
		}
		if err := a.Access.ConfirmPassword(x.Req.Context(), by, site.Secret(in.Password), a.client(&x.Req)); err != nil {
			return err
		}
	}
	return a.send(x, &a.sealing, "application/octet-stream", "gatehouse.backup", func(ctx context.Context, by site.Actor) (Parcel, error) {
		return a.SealedBackup(ctx, by, site.Secret(in.Passphrase))
	})
}

// send answers with what take creates, one at a time, as a file. turn is held until the
// caller has all of it.
func (a *API) send(x *kit.Exchange, turn *sync.Mutex, kind, name string, take func(context.Context, site.Actor) (Parcel, error)) error {
	control := http.NewResponseController(x)
	_ = control.SetReadDeadline(time.Time{}) // the server's is meant for requests
	if !turn.TryLock() {
		return fault.Throttle("A backup is being taken already", retry)
	}
	defer turn.Unlock()
	ctx, cancel := context.WithTimeout(x.Req.Context(), lengthily)
	defer cancel()
	x.Extend(lengthily + writeTimeout) // of the database there is a copy first
	parcel, err := take(ctx, x.Req.Actor)
	if err != nil {
		return err
	}
	x.Header().Set("Content-Type", kind)
	x.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	x.WriteHeader(http.StatusOK)
	_ = control.Flush() // so that the client knows that it begins
	return errors.Join(parcel.Write(pieces{x, time.Now().Add(lengthily)}), parcel.Close())
}

// pieces writes the answer, each piece with a time limit of its own, until the end of the
// whole, or until the gateway is being stopped or the caller is no administrator any more.
type pieces struct {
	x   *kit.Exchange
	end time.Time
}

// Write implements [io.Writer].
func (p pieces) Write(b []byte) (int, error) {
	switch {
	case p.x.Draining():
		return 0, errors.New("the gateway is being stopped")
	case time.Now().After(p.end):
		return 0, errors.New("sending the backup: it takes too long")
	case !p.x.Admitted():
		return 0, errors.New("sending the backup: the caller may not have it any more")
	}
	p.x.Extend(pieceTimeout)
	n, err := p.x.Write(b)
	if err != nil {
		return n, fmt.Errorf("sending the backup: %w", err)
	}
	return n, nil
}
