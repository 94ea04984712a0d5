package mqttclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Step is a part of [Dial].
type Step string

// The steps of [Dial].
const (
	StepConfiguration Step = "configuration" // a setting, or a file that one names
	StepResolve       Step = "resolve"       // the host name
	StepConnect       Step = "connect"       // TCP
	StepTLS           Step = "tls"
	StepLogin         Step = "login" // CONNECT and its answer
	StepSubscribe     Step = "subscribe"
)

// DialError is why a connection could not be made.
type DialError struct {
	Step   Step
	Err    error
	Advice string // a sentence that says what to do; "" when ctx was cancelled
}

// Error names the step and the cause.
func (e *DialError) Error() string { return string(e.Step) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// Steps returns the steps in their order.
func Steps() []Step {
	return []Step{StepConfiguration, StepResolve, StepConnect, StepTLS, StepLogin, StepSubscribe}
}

// after reports whether a step comes after another.
func (s Step) after(other Step) bool { return slices.Index(Steps(), s) > slices.Index(Steps(), other) }

// failed makes the error of a step. That ctx was cancelled says more than what it broke.
func (p *plan) failed(ctx context.Context, step Step, err error) *DialError {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &DialError{Step: step, Err: ctx.Err()}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer in time: %w", err)
	}
	return &DialError{Step: step, Err: foreignWords{err}, Advice: p.advice(step, err)}
}

// foreignWords is an error whose text may contain what the peer has chosen, such as the
// names of a self-signed certificate. It goes to logs, conditions and terminals.
type foreignWords struct{ error }

// Error returns one line of printable characters, and not more of it than people read.
func (e foreignWords) Error() string {
	const most = 300
	text := e.error.Error()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// Unwrap returns the error itself.
func (e foreignWords) Unwrap() error { return e.error }

const adviceConfiguration = "Correct the setting or the file that is named, and reload the configuration"

// advice says what to do about an error of a step. Settings are named as they are
// written in the configuration.
func (p *plan) advice(step Step, err error) string {
	switch step {
	case StepResolve:
		return p.adviceResolve(err)
	case StepConnect:
		return p.adviceConnect(err)
	case StepTLS:
		return p.adviceTLS(err)
	case StepLogin:
		return p.adviceLogin(err)
	default:
		return adviceSubscribe(err)
	}
}

func (p *plan) adviceResolve(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "Check the host name in url: this machine has to find it with: getent hosts " + p.endpoint.Host
	}
	return "The name server does not answer: check this machine's network and its name server (/etc/resolv.conf)"
}

func (p *plan) adviceConnect(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nothing listens on " + p.endpoint.Address + ": check the port in url, and that the broker runs"
	case isTimeout(err):
		return p.endpoint.Address + " does not answer: check the network, and that no firewall holds back outgoing TCP to that port"
	}
	return "Check the network between this machine and " + p.endpoint.Address
}

func (p *plan) adviceTLS(err error) string {
	if advice := p.adviceCertificate(err); advice != "" {
		return advice
	}
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isAlert(err):
		return "The broker breaks the TLS handshake off: it may want a client certificate (certificate, key), not know the CA of this one, or speak no TLS 1.2"
	case plain, isTimeout(err):
		return p.endpoint.Address + " does not speak TLS: put the port of the broker's TLS listener in url (usually 8883), or write tcp:// to do without encryption"
	}
	return "The TLS handshake fails: check that the port in url is that of the broker's TLS listener (usually 8883), that it speaks TLS 1.2 or newer, and its log"
}

// adviceCertificate is for a certificate of the broker's that is not accepted.
func (p *plan) adviceCertificate(err error) string {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case unknown && p.CA != "":
		return "The broker's certificate is not from the CA in " + p.CA + ": set ca to the file with the certificate of the CA that signed it"
	case unknown:
		return "This machine does not know the CA of the broker's certificate: set ca to the file with that CA's certificate"
	case otherName:
		return "The broker's certificate is not for " + p.endpoint.Host + ": write a name that it bears in url, or install a certificate for this one on the broker"
	case isInvalid && invalid.Reason == x509.Expired:
		return "Renew the broker's certificate; or, if it is valid, set this machine's clock: by it, it is " + p.Now().UTC().Format(time.RFC3339)
	}
	return ""
}

func (p *plan) adviceLogin(err error) string {
	if code, ok := errors.AsType[refusal](err); ok {
		return p.adviceRefusal(code)
	}
	first, isForeign := errors.AsType[foreign](err)
	switch {
	case isForeign && first == alert:
		return p.endpoint.Address + " speaks TLS: write tls:// in url"
	case isForeign:
		return p.endpoint.Address + " is no MQTT listener: check the host and the port in url"
	case isAlert(err):
		return "The broker wants another client certificate: set certificate and key to those that it gave this gateway, and see that they have not expired"
	case isTimeout(err):
		return p.endpoint.Address + " accepts the connection and says nothing: check that the port in url is that of an MQTT listener, and whether it wants TLS"
	}
	return "The broker closes the connection: if its port wants TLS, write tls:// in url; else check username, password, client_id and the client certificate, and the broker's log"
}

func (p *plan) adviceRefusal(code refusal) string {
	switch code {
	case refusedVersion:
		return "Let the broker accept MQTT 3.1.1"
	case refusedUnavailable:
		return "See the broker's log"
	case refusedID:
		return "Set client_id to one that the broker accepts, or let it accept " + p.ClientID
	}
	return "Check username and password, and that this user may connect with the client id " + p.ClientID
}

func adviceSubscribe(err error) string {
	if refused, ok := errors.AsType[unsubscribed](err); ok {
		return "Give this user the right to subscribe to " + refused.topic + " on the broker"
	}
	return "The connection broke while subscribing: some brokers close the connection of a client that has no right to subscribe; check its rights, and the broker's log"
}

// isTimeout reports whether something took too long, the end of Dial's time included.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errSilent)
}

// isAlert reports whether the other end of TLS has sent an alert.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
