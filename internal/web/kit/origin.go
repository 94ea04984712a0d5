package kit

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// CheckHost returns an error unless the request is addressed to an IP address, localhost
// or a name of the gateway. A page can point a name of its own to the gateway's address
// (DNS rebinding); its requests carry that name.
func (x *Exchange) CheckHost() error {
	host := hostOf(x.Req.Host)
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || x.kit.names == nil || slices.ContainsFunc(x.kit.names(), matches(host)) {
		return nil
	}
	x.Refused("http-host")
	return errHost()
}

// foreign reports whether the request may come from a page of a foreign name. No page
// reaches a Unix socket, and every browser names a host.
func (x *Exchange) foreign() bool {
	return x.Req.Host != "" && x.Req.Remote().IsValid() && x.CheckHost() != nil
}

func errHost() error {
	return Refuse(http.StatusMisdirectedRequest,
		"This gateway does not know the name in the address: use its IP address or its own name, which \"name\" in the configuration sets")
}

// Addressed is a guard that admits every request that [Exchange.CheckHost] accepts.
func Addressed(x *Exchange) (site.Actor, error) { return site.Actor{}, x.CheckHost() }

// FromPage is a guard that admits every request that [Exchange.CheckPage] accepts.
func FromPage(x *Exchange) (site.Actor, error) { return site.Actor{}, x.CheckPage() }

// hostOf returns the host of a Host header without its port, in lower case.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		header = host
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(header, "[]"), "."))
}

// matches reports whether a name, which may begin with the label "*", is that of a host.
func matches(host string) func(name string) bool {
	_, domain, _ := strings.Cut(host, ".")
	return func(name string) bool {
		if parent, wild := strings.CutPrefix(name, "*."); wild {
			return strings.EqualFold(parent, domain)
		}
		return strings.EqualFold(name, host)
	}
}

// CheckPage returns an error unless a page of this gateway may have sent the request: it
// does not cross a network in clear text, [Exchange.CheckHost] accepts it, and no page of
// another origin sent it. Unlike [http.CrossOriginProtection] it does not except
// GET: such a page can count and time answers that it cannot read. Nor does it accept a
// page that came without TLS from a browser that names no site (before 2023): someone on
// the way may have written it.
func (x *Exchange) CheckPage() error {
	if !x.Req.TLS && !x.Req.Remote().IsLoopback() {
		return fault.New(fault.Forbidden, "The password would cross the network in clear text: use https, or the gateway's own machine")
	}
	if err := x.CheckHost(); err != nil {
		return err
	}
	strict := *x.Req.Request
	strict.Method = http.MethodPost
	plain := x.Req.TLS && strings.HasPrefix(x.Req.Header.Get("Origin"), "http:")
	if plain || x.kit.crossOrigin.Check(&strict) != nil {
		x.Refused("http-cross-origin")
		return fault.New(fault.Forbidden, "Forbidden: a page of another origin sent this")
	}
	return nil
}

// HTTPS returns the address of the host that the client named, by HTTPS on that port,
// without a slash at its end; "" if it named neither a host (RFC 1123, 2.1) nor an
// address.
func (r *Request) HTTPS(port string) string {
	host := hostOf(r.Host)
	if host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.:") != "" {
		return ""
	}
	return "https://" + strings.TrimSuffix(net.JoinHostPort(host, port), ":443")
}
