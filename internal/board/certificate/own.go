package certificate

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// retryAfter is how long nothing is written after a write that failed.
	retryAfter = 10 * time.Minute

	// followMost is how many certificates are made for new addresses at once, and
	// followEvery how soon another may be.
	followMost  = 4
	followEvery = time.Hour
)

// own is the gateway's own CA and server certificate: in memory as they are used, and
// in the folder as they are kept.
type own struct {
	folder folder
	id     site.GatewayID

	authority authority
	server    server
	again     bool          // whether the folder is to be read, whatever is in memory
	followed  *rate.Limiter // of certificates for new addresses
	failed    error         // of the last write
	retry     time.Time     // not to be written before
}

// look makes the certificate what it should be, writes it, and returns what is wrong.
func (o *own) look(w wanted) (errs []error) {
	if o.again || o.authority.key == nil || o.authority.unsaved {
		errs = append(errs, o.load(w))
	}
	w = o.authority.within(w)
	if o.server.stale(o.authority, w) || o.server.moved(o.authority, w) && o.followed.Allow() {
		errs = append(errs, o.renew(w))
	}
	return append(errs, o.keep())
}

// load reads the folder, and makes a CA if there is none. A damaged one is left alone,
// and what was in use before stays in use.
func (o *own) load(w wanted) error {
	stored, err := loadAuthority(o.folder, w, o.id)
	o.again = err != nil
	switch {
	case errors.Is(err, errNoAuthority):
		o.again, err = false, nil
		if o.authority.key == nil || !o.authority.unsaved { // else it waits to be written
			o.authority, err = newAuthority(w, o.id)
		}
	case err == nil || o.authority.key == nil:
		o.authority = stored
	}
	o.loadServer(loadServer(o.folder), w)
	return err
}

// loadServer uses the server certificate of the folder if it is good.
func (o *own) loadServer(stored server, w wanted) {
	good := stored.leaf != nil && o.authority.vouches(stored.leaf)
	if o.authority.key == nil { // it cannot be replaced
		good = !stored.stale(o.authority, w)
	}
	waits := o.server.unsaved && !o.server.passing && o.authority.vouches(o.server.leaf)
	switch {
	case waits: // to be written
	case good:
		o.server = stored
	case o.server.key == nil:
		o.server = server{key: stored.key}
	default: // ours is not on disk, or no longer
		o.server.unsaved = true
	}
}

// renew makes another server certificate. It keeps the addresses of the old one, which
// may come back.
func (o *own) renew(w wanted) error {
	ips := w.ips
	if o.server.leaf != nil {
		ips = join(ips, o.authority.within(wanted{ips: fromIPs(o.server.leaf.IPAddresses)}).ips)
	}
	made, err := o.server.renew(o.authority, w, ips)
	if err == nil {
		o.server = made
	}
	return err
}

// keep writes what is not on disk yet, the CA first, so that the folder never has a
// certificate whose CA is lost. Without a CA nothing is worth keeping.
func (o *own) keep() error {
	a, s := &o.authority, &o.server
	switch {
	case a.key == nil || !a.unsaved && !s.unsaved:
		o.failed = nil
		return nil
	case o.failed != nil && time.Now().Before(o.retry):
		return o.failed
	}
	o.failed = nil
	for _, f := range []struct {
		name    string
		unsaved bool
		text    []byte
		mode    os.FileMode
	}{
		{fileCAKey, a.unsaved, encodeKey(a.key), 0o600},
		{fileCA, a.unsaved, a.pem(), 0o644},
		{fileServerKey, s.unsaved, encodeKey(s.key), 0o600},
		{fileServer, s.unsaved, encodeCertificate(s.leaf), 0o644},
	} {
		if there, err := o.folder.read(f.name); !f.unsaved || err == nil && bytes.Equal(there, f.text) {
			continue
		}
		if err := o.folder.write(f.name, f.text, f.mode); err != nil {
			o.failed, o.retry = o.notKept(err), time.Now().Add(retryAfter)
			return o.failed
		}
	}
	a.unsaved, s.unsaved = false, false
	return nil
}

func (o *own) notKept(err error) error {
	p := problem{
		code: notKept, kind: fault.Unavailable, cause: err,
		summary: "The gateway's certificate cannot be written to " + o.folder.path + "; another one is made at the next start",
		advice:  "Make room or repair the disk (df and dmesg show what is wrong); it is retried every ten minutes",
	}
	if errors.Is(err, fs.ErrPermission) {
		p.advice = adviceOwner(o.folder)
	}
	if o.authority.unsaved {
		p.summary = "The gateway's own CA cannot be written to " + o.folder.path + "; another one is made at the next start"
	}
	return p
}

// reread has the next look read the folder again.
func (o *own) reread() { o.again, o.retry = true, time.Time{} }
