package httpapi

import (
	"fmt"
	"html"
	"net/http"
	"strings"

	"gatehouse/internal/web/kit"
)

// front is the handler of /. A browser gets a page for people, any other client the
// 404 of an unknown path. The page is public, and shows no fingerprint: an attacker
// on the way who changes the certificate changes that too.
func (a *API) front(x *kit.Exchange) error {
	get := x.Req.Method == http.MethodGet || x.Req.Method == http.MethodHead
	if !get || !strings.Contains(x.Req.Header.Get("Accept"), "text/html") {
		return kit.NotFound()
	}
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = fmt.Fprintf(x, `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Gatehouse</title>
<h1>Gatehouse %s</h1>
%s
<p><a href="/v1/openapi.json">The description of the API</a> for apps (OpenAPI)
`, html.EscapeString(a.Name), strings.Join(a.news(x.Req.TLS), "\n")) // the client may have disconnected
	return nil
}

// news returns what the page says of the present, as HTML.
func (a *API) news(tls bool) []string {
	news := []string{"<p>This gateway is ready: doors can be opened."}
	if notReady(a.Health) != "" {
		news[0] = `<p>This gateway is <strong>not ready</strong>: no door can be opened. Run <code>gatehouse doctor</code> on it, or see <a href="/readyz">/readyz</a>.`
	}
	if a.setupOpen() {
		news = append(news, `<p>There is no account yet. The setup code is on the screen of the board, and in its log (<code>journalctl -u gatehouse</code>).
Send it from this network: <code>POST /local/v1/setup</code> with <code>{"code":"…","email":"…","password":"…"}</code>,
or run <code>gatehouse account add EMAIL --admin</code> on the board.`)
	}
	if tls {
		news = append(news, `<p><a href="/trust">How your devices trust this gateway</a>`)
	}
	return news
}
