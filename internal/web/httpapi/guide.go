package httpapi

import (
	"log/slog"
	"net/http"

	"gatehouse/internal/web/kit"
)

// Guide returns the routes of the plain port that only leads to HTTPS, so that no
// password crosses the network in clear text by mistake. It redirects what a browser
// asks for, and refuses other methods; httpsPort is the port of HTTPS. /healthz and
// /readyz are answered too.
func (a *API) Guide(httpsPort string) []kit.Route {
	return append(probes(a.Health), kit.Route{
		Pattern: "/", Level: slog.LevelDebug,
		Serve: func(x *kit.Exchange) error { return redirect(x, httpsPort) },
	})
}

// redirect redirects to the same path over HTTPS. The path is not logged: it may have
// tokens.
func redirect(x *kit.Exchange, port string) error {
	if x.Req.Method != http.MethodGet && x.Req.Method != http.MethodHead {
		return kit.Refuse(http.StatusForbidden, "This port only leads to HTTPS: send the request to https://, port "+port)
	}
	address := x.Req.HTTPS(port)
	if address == "" {
		return kit.NotFound()
	}
	x.Header().Set("Location", address+x.Req.URL.RequestURI())
	return kit.Refuse(http.StatusPermanentRedirect, "Use HTTPS")
}
