package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"
)

// authorityLate is how long before its end the gateway's authority should be replaced: the
// new one must be installed in every app and station.
const authorityLate = 365 * 24 * time.Hour

// checkCertificate relays what the gateway reports of its certificate, and checks the
// authority that signed it.
func checkCertificate(ctx context.Context, g *subject, s *sheet) {
	g.relay(s, "certificate-")
	c := g.status.Certificate
	switch {
	case g.broken == nil && len(g.settings.HTTP.TLSListen)+len(g.settings.MQTT.TLSListen) == 0, g.runs() && c == nil:
		s.fine("None is needed: no port speaks TLS")
		return
	case !g.runs():
		s.skip("only a running gateway knows it", "")
		return
	}
	evidence := []string{"its SHA-256 fingerprint is " + c.Fingerprint, "it is for: " + strings.Join(c.Names, ", ")}
	for _, name := range []string{g.status.Name, g.status.Name + ".local"} {
		if (&x509.Certificate{DNSNames: c.Names}).VerifyHostname(name) != nil {
			s.notice("The certificate does not have the name "+name+": apps that call the gateway by it refuse it",
				"have apps use a name that it has; or set name in the configuration, or name another certificate in [tls]", evidence...)
		}
	}
	if c.Own {
		checkAuthority(ctx, g, s)
	}
	s.fine("It is valid until "+moment(c.NotAfter.Time), evidence...)
}

// checkAuthority checks how long the gateway's own authority is valid, and that it vouches
// for local names and addresses only.
func checkAuthority(ctx context.Context, g *subject, s *sheet) {
	path := g.data("tls/ca.crt")
	text, err := g.Read(ctx, path)
	if err != nil {
		s.unread("the gateway's authority", err)
		return
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return // the gateway reports it
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return // likewise
	}
	renew := fmt.Sprintf("rm %s %s; %s; then install the new ca.crt in every app and station", g.data("tls/ca.key"), path, g.command("restart"))
	switch left := ca.NotAfter.Sub(g.Machine.Now()); {
	case left < authorityLate:
		s.warn(fmt.Sprintf("The gateway's authority expires in %d days; apps and stations refuse the gateway then", left/(24*time.Hour)),
			renew, "valid until "+moment(ca.NotAfter))
	case !ca.PermittedDNSDomainsCritical || len(ca.PermittedDNSDomains) == 0 || len(ca.PermittedIPRanges) == 0:
		s.notice("The gateway's authority may vouch for any site: a thief of its key, from a backup too, can pose as one to the phones that trust it",
			renew, "created by a former version, valid until "+moment(ca.NotAfter))
	}
}
