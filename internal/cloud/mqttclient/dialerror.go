package mqttclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
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

// failed returns the error of a step; where ctx was cancelled, that is the cause.
func (p *plan) failed(ctx context.Context, step Step, err error) *DialError {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &DialError{Step: step, Err: ctx.Err()}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer in time: %w", err)
	}
	return &DialError{Step: step, Err: foreignWords{err}, Advice: p.advice(step)}
}

// foreignWords is an error whose text may contain what the peer has chosen, such as the
// names of a self-signed certificate. It goes to logs, conditions and terminals.
type foreignWords struct{ error }

// Error returns one line of printable characters, and not more of it than people read.
func (e foreignWords) Error() string {
	text := strings.ToValidUTF8(fmt.Sprintf("%.300s", e.error.Error()), "?")
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

// advice returns what to check after an error of a step. Settings are named as they are
// written in the configuration.
func (p *plan) advice(step Step) string {
	switch step {
	case StepResolve:
		return "Check the host name in url, and this machine's network and name server: getent hosts " + p.endpoint.Host
	case StepConnect:
		return "Check host and port in url (" + net.JoinHostPort(p.endpoint.Host, p.endpoint.Port) + "), that the broker runs, and the network and firewalls on the way"
	case StepTLS:
		return "Check that the port in url is that of the broker's TLS listener (usually 8883); that ca is the file with the CA of its certificate, " +
			"which must be valid for " + p.endpoint.Host + " and at " + p.Now().UTC().Format(time.RFC3339) + ", the time of this machine; " +
			"and certificate and key, if the broker wants a client certificate"
	case StepLogin:
		return "Check username, password and, where the broker wants one, the client certificate; that it accepts the client id " + p.ClientID + "; " +
			"that the port in url is an MQTT listener, with tls:// if it wants TLS; and the broker's log"
	}
	return "Allow this user to subscribe on the broker: some brokers close the connection of a client that has no right to"
}
