package certificate

import (
	"crypto"
	"errors"
	"io/fs"
	"slices"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// retryAfter is how long nothing is written after a write that failed.
	retryAfter = 10 * time.Minute

	// followMost is how many certificates are made for new addresses within
	// followWithin.
	followMost   = 4
	followWithin = 4 * time.Hour
)

// own is the gateway's own CA and server certificate: in memory as they are used, and
// in the folder as they are kept.
type own struct {
	folder folder
	id     site.GatewayID

	authority authority
	server    server
	again     bool        // whether the folder is to be read, whatever is in memory
	followed  []time.Time // when certificates were made for new addresses, at most followMost
	failed    error       // of the last write
	retry     time.Time   // not to be written before
}

// look makes the certificate what it should be, writes it, and returns what is wrong.
func (o *own) look(w wanted) (errs []error) {
	if o.again || o.authority.key == nil || !o.authority.kept {
		errs = append(errs, o.load(w))
	}
	w = o.authority.within(w)
	reason := o.server.stale(o.authority, w)
	if reason == staleAddress && !o.mayFollow() {
		reason = fresh
	}
	if reason != fresh {
		errs = append(errs, o.renew(w, reason))
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
		if o.again = false; o.authority.key == nil || o.authority.kept { // else it waits to be written
			o.authority, err = newAuthority(w, o.id)
		}
	case err == nil || o.authority.key == nil:
		o.authority = stored
	}
	o.loadServer(loadServer(o.folder), w)
	if errors.Is(err, errNoAuthority) {
		return nil
	}
	return err
}

// loadServer uses the server certificate of the folder if it is good.
func (o *own) loadServer(stored server, w wanted) {
	good := stored.leaf != nil && o.authority.vouches(stored.leaf)
	if o.authority.key == nil { // it cannot be replaced
		good = stored.stale(o.authority, w) == fresh
	}
	waits := o.server.leaf != nil && !o.server.kept && !o.server.passing && o.authority.vouches(o.server.leaf)
	switch {
	case waits: // to be written
	case good:
		o.server = stored
	case o.server.key == nil:
		o.server = server{key: stored.key, keyKept: stored.keyKept}
	default: // ours is not on disk, or no longer
		o.server.keyKept, o.server.kept = false, false
	}
}

// renew makes another server certificate. One for a new address keeps the old ones,
// which may come back.
func (o *own) renew(w wanted, why staleness) error {
	ips := w.ips
	if why == staleAddress {
		ips = join(w.ips, fromIPs(o.server.leaf.IPAddresses))
		o.followed = append(o.followed, time.Now())
	}
	made, err := o.server.renew(o.authority, w, ips)
	if err == nil {
		o.server = made
	}
	return err
}

// mayFollow reports whether a certificate may be made for a new address now.
func (o *own) mayFollow() bool {
	o.followed = slices.DeleteFunc(o.followed, func(t time.Time) bool { return time.Since(t) >= followWithin })
	return len(o.followed) < followMost
}

// keep writes what is not on disk yet, the CA first, so that the folder never has a
// certificate whose CA is lost. Without a CA nothing is worth keeping.
func (o *own) keep() error {
	if o.authority.key == nil || o.authority.kept && o.server.kept {
		o.failed = nil
		return nil
	}
	if o.failed != nil && time.Now().Before(o.retry) {
		return o.failed
	}
	o.failed = nil
	if err := o.write(); err != nil {
		o.failed, o.retry = o.notKept(err), time.Now().Add(retryAfter)
	}
	return o.failed
}

func (o *own) write() error {
	a, s := &o.authority, &o.server
	for _, f := range []struct {
		kept  *bool
		write func() error
	}{
		{&a.keyKept, func() error { return o.writeKey(fileCAKey, a.key) }},
		{&a.kept, func() error { return o.folder.write(fileCA, a.pem(), 0o644) }},
		{&s.keyKept, func() error { return o.writeKey(fileServerKey, s.key) }},
		{&s.kept, func() error { return o.folder.write(fileServer, encodeCertificate(s.leaf), 0o644) }},
	} {
		if *f.kept {
			continue
		}
		if err := f.write(); err != nil {
			return err
		}
		*f.kept = true
	}
	return nil
}

func (o *own) writeKey(name string, key crypto.Signer) error {
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	return o.folder.write(name, text, 0o600)
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
	if !o.authority.kept {
		p.summary = "The gateway's own CA cannot be written to " + o.folder.path + "; another one is made at the next start"
	}
	return p
}

// reread has the next look read the folder again.
func (o *own) reread() { o.again, o.retry = true, time.Time{} }
