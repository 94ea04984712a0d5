// Package trust serves /trust, the page that leads people to having their devices trust
// the gateway's own authority, and what they install for it. It is the only page that
// the gateway serves in clear text on a network: it has no cookie, no form and no secret,
// names nothing but the gateway, and works without JavaScript, but for testing by itself.
//
// The page proves nothing: an attacker in between can change it with what it offers. So it
// has people compare what their device shows with the fingerprint that the gateway itself
// shows: in `gatehouse status`, on the text console and in the result of a first boot.
//
// The assembly adds the routes to every HTTP listener of a gateway that has HTTPS.
package trust

import (
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"strings"

	"gatehouse/internal/web/kit"
)

//go:embed page.html
var page string

// own and given are what the page says to do where the gateway has an authority of its
// own, and where it has none.
//
//go:embed own.html
var own string

//go:embed given.html
var given string

//go:embed style.css
var style []byte

//go:embed test.js
var script []byte

//go:embed check.svg
var check []byte

// policy allows nothing but the page's own files, and the image of the test.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src https:; form-action 'none'; base-uri 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'"

// guide is what the routes need.
type guide struct {
	name, port string
	authority  func() []byte
}

// Routes returns the routes of the page and what it offers. name is that of the gateway,
// port that of its HTTPS; authority returns the certificate of its own authority as PEM,
// or nil if there is none to trust.
func Routes(name, port string, authority func() []byte) []kit.Route {
	g := guide{name, port, authority}
	routes := []kit.Route{
		{Pattern: "/trust", Guard: kit.Addressed, Serve: g.page},
		{Pattern: "/trust/style.css", Serve: kit.Document("text/css; charset=utf-8", style)},
		{Pattern: "/trust/test.js", Serve: kit.Document("text/javascript; charset=utf-8", script)},
		{Pattern: "/trust/check.svg", Serve: kit.Document("image/svg+xml", check)},
		{Pattern: "/ca.crt", Serve: g.download("application/x-x509-ca-cert", "gatehouse-ca.crt", authority)},
		{Pattern: "/ca.der", Serve: g.download("application/x-x509-ca-cert", "gatehouse-ca.cer", g.der)},
		{Pattern: "/gatehouse.mobileconfig", Serve: g.download("application/x-apple-aspen-config", "gatehouse.mobileconfig", g.profile)},
	}
	for i := range routes {
		routes[i].Method, routes[i].Level = http.MethodGet, slog.LevelDebug
	}
	return routes
}

// download returns the handler of what content returns, which a browser saves or installs.
func (g guide) download(kind, name string, content func() []byte) kit.Handler {
	return func(x *kit.Exchange) error {
		data := content()
		if data == nil {
			return kit.NotFound()
		}
		x.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		return kit.Document(kind, data)(x)
	}
}

// der returns the certificate of the authority; nil without one. In PEM it is the first.
func (g guide) der() []byte {
	if block, _ := pem.Decode(g.authority()); block != nil {
		return block.Bytes
	}
	return nil
}

// page answers with the page. The address of the test is the one in the request, so that
// a name that is not the gateway's leads nowhere.
func (g guide) page(x *kit.Exchange) error {
	address := x.Req.HTTPS(g.port)
	if address == "" {
		return kit.NotFound()
	}
	steps, words := given, []string{"{name}", html.EscapeString(g.name), "{https}", html.EscapeString(address)}
	if der := g.der(); der != nil {
		id := "<details id=" + system(&x.Req)
		steps = strings.Replace(own, id+">", id+" open>", 1)
		words = append(words, "{authority}", html.EscapeString(commonName(der)), "{fingerprint}", fingerprint(der))
	}
	text := strings.NewReplacer(words...).Replace(strings.Replace(page, "{steps}", steps, 1))
	x.Header().Set("Content-Security-Policy", policy)
	x.Header().Set("Referrer-Policy", "no-referrer")
	return kit.Document("text/html; charset=utf-8", []byte(text))(x)
}

// system returns the id of the part of the page about the system that a request names. An
// iPad calls itself a Mac; the script of the page knows better.
func system(r *kit.Request) string {
	switch name := r.System(); name {
	case "iPhone", "iPad":
		return "ios"
	default:
		return strings.ToLower(name)
	}
}

// fingerprint returns the SHA-256 of a certificate as HTML: as browsers show it, with a
// break allowed after each colon.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":<wbr>")
}

// commonName returns how systems call the certificate.
func commonName(der []byte) string {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return "Gatehouse"
	}
	return cert.Subject.CommonName
}
