package certificate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// The conditions that a Keeper raises and clears; there is at most one problem of each
// at a time.
const (
	invalid  = health.CertificateInvalid
	expiring = health.CertificateExpiring
	notKept  = health.CertificateNotKept
	dated    = health.CertificateAuthority
)

const (
	// soon is how long before its end a certificate is reported.
	soon = 21 * day
	// caLate is how long before its end the gateway's own CA is: a new one must be installed
	// in every app and station.
	caLate = 365 * day
)

// problem is something that a person must fix: a condition for status and doctor, and an
// error for the caller.
type problem struct {
	code            health.Code
	kind            fault.Kind
	summary, advice string
	cause           error // for the log; may be nil
}

// Error implements error, with the cause.
func (p problem) Error() string { return p.fault().Error() }

// Unwrap returns the error with its kind and sentence.
func (p problem) Unwrap() error { return p.fault() }

func (p problem) fault() error {
	return &fault.Error{Kind: p.kind, Sentence: p.summary + ": " + strings.ToLower(p.advice[:1]) + p.advice[1:], Err: p.cause}
}

// problemOf returns the problem that an error is; one of the gateway's if it is none.
func problemOf(err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	return problem{
		code: invalid, kind: fault.Internal, cause: err,
		summary: "The gateway's own certificate cannot be made", advice: "Report what the log of the gateway shows",
	}
}

func (p problem) condition() health.Condition {
	c := health.Condition{Code: p.code, Severity: health.Warning, Summary: p.summary, Advice: p.advice}
	if p.code == dated {
		c.Severity = health.Notice
	}
	return c
}

// credentials is where systemd puts copies of files for a service when it starts
// (systemd.exec(5), LoadCredential=). They cannot be changed there.
const credentials = "/run/credentials/"

// ending reports a certificate that has ended, or soon will, or has not begun.
func ending(s *served, g *given, w wanted) []problem {
	if !plausible(w.now) { // it is the clock that is wrong
		return nil
	}
	what, advice := "The gateway's own certificate", "Fix what keeps it from being renewed (see gatehouse doctor), and check the date of this machine (timedatectl)"
	if s.info.Source == Given && g != nil {
		what = "The certificate " + g.certificate
		advice = fmt.Sprintf("Put a new one into %s and its key into %s: they are read again within a minute", g.certificate, g.key)
		if strings.HasPrefix(g.certificate, credentials) {
			advice = "Put a new one, and its key, into /etc/gatehouse/credentials, and run: systemctl restart gatehouse"
		}
	}
	found := problem{code: expiring, kind: fault.Unavailable, advice: advice}
	switch left := s.info.NotAfter.Sub(w.now); {
	case w.trusted && s.info.NotBefore.After(w.now):
		found.summary = what + " is not valid before " + date(s.info.NotBefore)
	case left < 0:
		found.summary = what + " has ended on " + date(s.info.NotAfter) + "; apps and stations refuse it"
	case left <= soon:
		found.summary = what + " ends on " + date(s.info.NotAfter) + "; apps and stations refuse it then"
	default:
		return nil
	}
	return []problem{found}
}

// dated reports a CA that ends within a year, or that a former version created without
// name constraints.
func (o *own) dated(w wanted) []problem {
	ca := o.authority.cert
	if ca == nil || !plausible(w.now) {
		return nil
	}
	found := problem{
		code: dated, kind: fault.Unavailable,
		advice: fmt.Sprintf("Run: rm %s %s; systemctl restart gatehouse; then install the new ca.crt in every app and station", o.folder.file(fileCAKey), o.folder.file(fileCA)),
	}
	switch {
	case ca.NotAfter.Sub(w.now) < caLate:
		found.summary = "The gateway's own CA ends on " + date(ca.NotAfter) + "; apps and stations refuse the gateway then"
	case !ca.PermittedDNSDomainsCritical || len(ca.PermittedDNSDomains) == 0 || len(ca.PermittedIPRanges) == 0:
		found.summary = "The gateway's own CA, which a former version created, may vouch for any site: a thief of its key, from a backup too, can pose as one to the phones that trust it"
	default:
		return nil
	}
	return []problem{found}
}

func date(t time.Time) string { return site.At(t).Format(time.DateOnly) }
