package httpapi

import (
	"fmt"
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
		_, _ = x.Write(a.page(authority != nil && authority() != nil)) // the client may have disconnected
		return nil
	}
}

// page returns the page as HTML.
func (a *API) page(hasAuthority bool) []byte {
	front := a.Front()
	name := html.EscapeString(strings.TrimSpace("Gatehouse " + front.Name))
	page := fmt.Appendf(nil, `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>%s</title>
<h1>%s</h1>
`, name, name)
	if notReady(a.Health) == "" {
		page = append(page, "<p>This gateway is ready: doors can be opened.\n"...)
	} else {
		page = append(page, `<p>This gateway is <strong>not ready</strong>: no door can be opened. Run <code>gatehouse doctor</code> on it, or see <a href="/readyz">/readyz</a>.
`...)
	}
	if a.setupOpen() {
		page = append(page, `<h2>The first account</h2>
<p>There is no account yet. The setup code is on the screen of the board, and in its log (<code>journalctl -u gatehouse</code>).
Send it from this network: <code>POST /local/v1/setup</code> with <code>{"code":"…","email":"…","password":"…"}</code>,
or run <code>gatehouse account add EMAIL --admin</code> on the board.
`...)
	}
	page = append(page, `<h2>For apps</h2>
<p><a href="/v1/openapi.json">The description of the API</a> (OpenAPI)
`...)
	if front.Fingerprint != "" {
		page = fmt.Appendf(page, "<p>Certificate, SHA-256: <code>%s</code>\n", html.EscapeString(front.Fingerprint))
	}
	if hasAuthority {
		page = fmt.Appendf(page, `<p><a href="/ca.crt">The certificate of this gateway's own authority</a>, which apps and browsers have to trust once. SHA-256: <code>%s</code>
`, html.EscapeString(front.AuthorityFingerprint))
	}
	return page
}
