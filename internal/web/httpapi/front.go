package httpapi

import (
	"html"
	"net/http"
	"strings"

	"gatehouse/internal/web/kit"
)

// Front is what the page at / shows of the gateway. It is public.
type Front struct {
	Name                 string // of the gateway on the network
	Fingerprint          string // SHA-256 of the certificate of the TLS listeners; "" without any
	AuthorityFingerprint string // of the certificate at /ca.crt; "" without an own authority
}

// front returns the handler of /. A browser gets a page for people, any other client the
// 404 of an unknown path.
func (a *API) front(authority func() []byte) kit.Handler {
	return func(x *kit.Exchange) error {
		get := x.Req.Method == http.MethodGet || x.Req.Method == http.MethodHead
		if !get || !strings.Contains(x.Req.Header.Get("Accept"), "text/html") {
			return kit.NotFound()
		}
		h := x.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		_, _ = x.Write([]byte(a.page(authority != nil && authority() != nil))) // the client may have disconnected
		return nil
	}
}

// page returns the page as HTML.
func (a *API) page(hasAuthority bool) string {
	front := a.Front()
	name := "Gatehouse"
	if front.Name != "" {
		name += " " + front.Name
	}
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	line(`<!DOCTYPE html>`)
	line(`<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">`)
	line(`<title>`, html.EscapeString(name), `</title>`)
	line(`<h1>`, html.EscapeString(name), `</h1>`)
	if len(a.Health.NotReady()) == 0 {
		line(`<p>This gateway is ready: doors can be opened.`)
	} else {
		line(`<p>This gateway is <strong>not ready</strong>: no door can be opened. Run <code>gatehouse doctor</code> on it, or see <a href="/readyz">/readyz</a>.`)
	}
	if a.setupOpen() {
		line(`<h2>The first account</h2>`)
		line(`<p>There is no account yet. The setup code is on the screen of the board, and in its log (<code>journalctl -u gatehouse</code>).`)
		line(`Send it from this network: <code>POST /local/v1/setup</code> with <code>{"code":"…","email":"…","password":"…"}</code>,`)
		line(`or run <code>gatehouse account add EMAIL --admin</code> on the board.`)
	}
	line(`<h2>For apps</h2>`)
	line(`<p><a href="/v1/openapi.json">The description of the API</a> (OpenAPI)`)
	if front.Fingerprint != "" {
		line(`<p>Certificate, SHA-256: <code>`, html.EscapeString(front.Fingerprint), `</code>`)
	}
	if hasAuthority {
		line(`<p><a href="/ca.crt">The certificate of this gateway's own authority</a>, which apps and browsers have to trust once. SHA-256: <code>`,
			html.EscapeString(front.AuthorityFingerprint), `</code>`)
	}
	return b.String()
}
