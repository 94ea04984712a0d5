package httpapi

import (
	"log/slog"
	"net"
	"net/http"
	"strings"

	"gatehouse/internal/web/kit"
)

// Guide returns the routes of the plain port that only leads to HTTPS, so that no
// password crosses the network in clear text by mistake. It redirects what a browser
// asks for, refuses other methods, and serves the certificate of the gateway's own
// authority as /ca.crt. authority returns that as PEM, or nil if there is none;
// httpsPort is the port of HTTPS. /healthz and /readyz are answered too.
func (a *API) Guide(httpsPort string, authority func() []byte) []kit.Route {
	return append(probes(a.Health), authorityRoute(authority), kit.Route{
		Pattern: "/", Level: slog.LevelDebug,
		Serve: func(x *kit.Exchange) error { return redirect(x, httpsPort) },
	})
}

// authorityPath is where the certificate of the gateway's own authority is.
const authorityPath = "/ca.crt"

// authorityRoute serves the certificate that apps have to trust once.
func authorityRoute(authority func() []byte) kit.Route {
	return kit.Route{Method: http.MethodGet, Pattern: authorityPath, Level: slog.LevelDebug, Serve: func(x *kit.Exchange) error {
		text := authority()
		if text == nil {
			return kit.NotFound()
		}
		x.Header().Set("Content-Type", "application/x-x509-ca-cert")
		x.Header().Set("Content-Disposition", `attachment; filename="gatehouse-ca.crt"`)
		_, _ = x.Write(text) // the client may have disconnected
		return nil
	}}
}

// redirect redirects to the same path over HTTPS. The path is not logged: it may have
// tokens.
func redirect(x *kit.Exchange, port string) error {
	if x.Req.Method != http.MethodGet && x.Req.Method != http.MethodHead {
		return kit.Refuse(http.StatusForbidden, "This port only leads to HTTPS: send the request to https://, port "+port)
	}
	host := httpsHost(x.Req.Host, port)
	if host == "" {
		return kit.NotFound()
	}
	x.Header().Set("Location", "https://"+host+x.Req.URL.RequestURI())
	return kit.Refuse(http.StatusPermanentRedirect, "Use HTTPS")
}

// httpsHost returns the host that a client named, with the port of HTTPS; "" if that is
// not a host (RFC 1123, 2.1) or an address.
func httpsHost(host, port string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:"
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if host == "" || strings.Trim(host, letters) != "" {
		return ""
	}
	return strings.TrimSuffix(net.JoinHostPort(host, port), ":443")
}
