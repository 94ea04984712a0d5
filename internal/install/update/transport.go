package update

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"

	"gatehouse/internal/fault"
)

var (
	errStalled   = errors.New("almost nothing has arrived for a minute")
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
	if stalled := context.Cause(ctx); errors.Is(stalled, errStalled) {
		return stalled
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if expired, is := errors.AsType[x509.CertificateInvalidError](err); is && expired.Reason == x509.Expired {
		return fault.New(fault.Unavailable, "The certificate of "+d.url.Host+" is not valid at this board's time: \"gatehouse clock\" shows whether that is right")
	}
	if certificate || errors.Is(err, errDowngrade) {
		return fault.New(fault.Unavailable, d.url.Host+" is not trusted ("+cause(err)+"): take another address, or copy the file to the board")
	}
	return errors.New(cause(err))
}

// cause returns an error without the address, which may hold a password.
func cause(err error) string {
	for {
		e, is := errors.AsType[*url.Error](err)
		if !is {
			return bounded(err.Error(), maxReason/2) // a server may have worded it
		}
		err = e.Err
	}
}
