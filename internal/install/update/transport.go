package update

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

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
func (d *fetch) transport() http.RoundTripper {
	if d.u.HTTP != nil {
		return d.u.HTTP
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         d.dial,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
	}
}

// errPrivate is why a redirect is not followed.
var errPrivate = errors.New("it redirects to an address of this machine or of a private network")

// dial connects to the host that the address of the update names, or to its proxy. To any
// other host, to which a redirect leads, it connects only over the internet: else a server
// elsewhere could have root try the ports of this machine and of its network.
func (d *fetch) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if host, _, err := net.SplitHostPort(address); err != nil || !d.names(host) {
		dialer.Control = func(_, peer string, _ syscall.RawConn) error {
			if addr, err := netip.ParseAddrPort(peer); err != nil || !isPublic(addr.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	return dialer.DialContext(ctx, network, address) //nolint:wrapcheck // net/http and unreachable word it
}

// names reports whether the configuration names a host, as that of the update or as a proxy.
func (d *fetch) names(host string) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: d.url})
	return strings.EqualFold(host, d.url.Hostname()) || err == nil && proxy != nil && strings.EqualFold(host, proxy.Hostname())
}

// isPublic reports whether an address is on the internet: in none of the prefixes that lead
// nowhere there, or by a gateway to an IPv4 address that they hold (RFC 6890).
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, special := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "::/96", "64:ff9b::/32", "2001::/32", "2002::/16", "fec0::/10",
	} {
		if netip.MustParsePrefix(special).Contains(addr) {
			return false
		}
	}
	return addr.IsGlobalUnicast() && !addr.IsPrivate()
}

// unreachable words an error before an answer. A certificate that is not trusted is not
// worth another attempt.
func (d *fetch) unreachable(ctx context.Context, err error) error {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if expired, is := errors.AsType[x509.CertificateInvalidError](err); is && expired.Reason == x509.Expired {
		return fault.New(fault.Unavailable, "The certificate of "+d.url.Host+" is not valid at this board's time: \"gatehouse clock\" shows whether that is right")
	}
	if certificate || errors.Is(err, errDowngrade) || errors.Is(err, errPrivate) {
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
