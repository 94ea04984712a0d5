package update

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
)

var (
	errStalled   = errors.New("almost nothing has arrived for a minute")
	errSlow      = errors.New("it takes too long")
	errDowngrade = errors.New("it redirects from https to http")
)

// redirect refuses redirects that would send on the open network what was asked for in
// private, and too many. No other host hears the query of the address: it may be a password.
func redirect(next *http.Request, before []*http.Request) error {
	next.Header.Del("Referer")
	switch {
	case len(before) >= 10:
		return errors.New("it redirects more than ten times")
	case before[0].URL.Scheme == "https" && next.URL.Scheme == "http":
		return errDowngrade
	}
	return nil
}

// transport returns what requests go over.
func (u *Updater) transport() http.RoundTripper {
	if u.HTTP != nil {
		return u.HTTP
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
	}
}

// unreachable words an error before an answer. A certificate that is not trusted is not
// worth another attempt.
func (d *fetch) unreachable(ctx context.Context, err error) error {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if expired, is := errors.AsType[x509.CertificateInvalidError](err); is && expired.Reason == x509.Expired {
		return fault.New(fault.Unavailable, "The certificate of "+d.url.Host+" is not valid at this board's time: \"gatehouse clock\" shows whether that is right")
	}
	if certificate || errors.Is(err, errDowngrade) {
		return fault.New(fault.Unavailable, d.url.Host+" is not trusted ("+cause(err)+"): take another address, or copy the file to the board")
	}
	return d.broken(ctx, err)
}

// broken words the end of an attempt.
func (d *fetch) broken(ctx context.Context, err error) error {
	switch why := context.Cause(ctx); {
	case errors.Is(why, errSlow):
		return fault.New(fault.Unavailable, fmt.Sprintf("%s has not delivered the update within %d hours: run it again, which continues at %s, or take a USB stick",
			d.url.Host, int(longest.Hours()), machine.Size(d.have)))
	case errors.Is(why, errStalled):
		return errStalled
	}
	return errors.New(cause(err))
}

// cause returns an error without the address, which may hold a password: in its query, or
// before an @. Nor is one told that the server redirects to.
func cause(err error) string {
	for {
		e, is := errors.AsType[*url.Error](err)
		switch text := err.Error(); {
		case is:
		case strings.ContainsAny(text, "?@"):
			return "its answer cannot be read"
		default:
			return bounded(text, maxReason/2) // a server may have worded it
		}
		err = e.Err
	}
}
