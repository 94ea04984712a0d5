package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Guide gives the handler of the plain port that only leads to HTTPS, so that no
// password crosses the network in clear text by mistake: it redirects what a browser
// asks for, refuses everything that carries something, and hands out the certificate of
// the gateway's own authority as /ca.crt. ca gives that as PEM, or nil where there is
// none; httpsPort is the port of HTTPS. /healthz and /readyz are answered too.
func (a *API) Guide(httpsPort string, ca func() []byte) http.Handler {
	return &guide{api: a, port: httpsPort, ca: ca}
}

type guide struct {
	api  *API
	port string
	ca   func() []byte
}

// ServeHTTP implements [http.Handler].
func (g *guide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.api.begin(w, r, false)
	defer x.finish()
	x.pattern = "guide"
	if !x.enter() {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		x.refuse(http.StatusForbidden, "This port only leads to HTTPS: send the request to https://, port "+g.port)
		return
	}
	switch r.URL.Path {
	case "/healthz":
		alive(x)
	case "/readyz":
		g.api.ready(x)
	case authorityPath:
		x.giveAuthority(g.ca)
	default:
		g.lead(x)
	}
}

// authorityPath is where the certificate of the gateway's own authority is.
const authorityPath = "/ca.crt"

// giveAuthority hands out the certificate that apps have to trust once.
func (x *exchange) giveAuthority(ca func() []byte) {
	text := ca()
	if text == nil {
		x.refuse(http.StatusNotFound, "Not found")
		return
	}
	x.Header().Set("Content-Type", "application/x-x509-ca-cert")
	x.Header().Set("Content-Disposition", `attachment; filename="gatehouse-ca.crt"`)
	_, _ = x.Write(text)
}

// lead redirects to the same path over HTTPS. The path is not logged: tokens stand in
// it.
func (g *guide) lead(x *exchange) {
	host := g.host(x.r)
	if !canonical(x.r.URL.EscapedPath()) || host == "" {
		x.refuse(http.StatusNotFound, "Not found")
		return
	}
	x.Header().Set("Location", "https://"+host+x.r.URL.RequestURI())
	x.refuse(http.StatusPermanentRedirect, "Use HTTPS")
}

// host gives the host with the port of HTTPS, as the client named it, or "" for what
// is no host.
func (g *guide) host(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err != nil && !isHostName(host) {
		return ""
	}
	switch {
	case g.port != "443":
		return net.JoinHostPort(host, g.port)
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	default:
		return host
	}
}

// isHostName reports whether text can be the name of a host (RFC 1123, 2.1).
func isHostName(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
	return text != "" && len(text) <= 253 && strings.Trim(text, letters) == ""
}
