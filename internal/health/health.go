// Package health keeps the named conditions of this gateway: what is wrong now,
// how bad it is, and what to do about it. Components raise and clear their own
// conditions; readyz, status and doctor only read. It decides nothing itself.
package health

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// Severity is how bad a condition is.
type Severity string

// The severities. A condition of severity Fatal makes the gateway not ready: it
// cannot open doors.
const (
	Notice  Severity = "notice"
	Warning Severity = "warning"
	Fatal   Severity = "fatal"
)

// Code names a condition; it never changes once shipped.
type Code string

// The conditions, beside those of alarms: their codes are the kinds of their records.
const (
	Starting       Code = "starting"
	StorageFailing Code = "storage-failing"
	StorageDamaged Code = "storage-damaged"

	RevocationsUnstored Code = "revocations-unstored"
	StorageUnresponsive Code = "storage-unresponsive"

	CopyFailing    Code = "copy-failing"
	DataTakenBack  Code = "data-taken-back"
	ClockUntrusted Code = "clock-untrusted"
	ClockAhead     Code = "clock-ahead"
	ClockStep      Code = "clock-step"
	PlainHTTP      Code = "plain-http"
	KeyDamaged     Code = "key-damaged"
	NoAdminSocket  Code = "no-admin-socket"
	NoAdminGroup   Code = "no-admin-group"
	SocketUnused   Code = "socket-unused"
	RestartNeeded  Code = "restart-needed"

	ConfigurationInvalid Code = "configuration-invalid"

	CloudDown           Code = "cloud-down"
	CloudPlain          Code = "cloud-plain"
	CloudUnacknowledged Code = "cloud-unacknowledged"
	CloudBacklog        Code = "cloud-backlog"
	CloudUnreadable     Code = "cloud-unreadable"
	CloudIdentity       Code = "cloud-identity"
	CloudClock          Code = "cloud-clock"

	StationPacketSize Code = "station-packet-size"
	StationClock      Code = "station-clock"
	StationsFull      Code = "stations-full"

	HomeAssistantDown  Code = "homeassistant-down"
	HomeAssistantPlain Code = "homeassistant-plain"

	CertificateInvalid  Code = "certificate-invalid"
	CertificateExpiring Code = "certificate-expiring"
	CertificateNotKept  Code = "certificate-not-kept"

	CertificateAuthority Code = "certificate-authority"
)

// Condition is one thing that is not as it should be.
type Condition struct {
	Code     Code           `json:"code"`
	Severity Severity       `json:"severity"`
	Summary  string         `json:"summary"` // what is wrong, in one sentence
	Advice   string         `json:"advice"`  // what to do about it
	Since    site.Timestamp `json:"since"`
}

// Registry holds the present conditions. The zero Registry is empty and ready.
// Safe for concurrent use.
type Registry struct {
	mu  sync.Mutex
	now map[Code]Condition // mu guards now
}

// Raise states a condition; raising it again updates the words and keeps Since.
func (r *Registry) Raise(c Condition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil {
		r.now = make(map[Code]Condition)
	}
	if old, ok := r.now[c.Code]; ok {
		c.Since = old.Since
	} else if c.Since.IsZero() {
		c.Since = site.At(time.Now())
	}
	r.now[c.Code] = c
}

// Report raises a condition of these words; see [Condition].
func (r *Registry) Report(severity Severity, code Code, summary, advice string) {
	r.Raise(Condition{Code: code, Severity: severity, Summary: summary, Advice: advice})
}

// Clear ends a condition; it does nothing if it is not raised.
func (r *Registry) Clear(code Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.now, code)
}

// Conditions lists the present conditions, worst first, then by code.
func (r *Registry) Conditions() []Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Condition, 0, len(r.now))
	for _, c := range r.now {
		out = append(out, c)
	}
	order := []Severity{Fatal, Warning, Notice}
	slices.SortFunc(out, func(a, b Condition) int {
		return cmp.Or(slices.Index(order, a.Severity)-slices.Index(order, b.Severity), cmp.Compare(a.Code, b.Code))
	})
	return out
}

// NotReady names the fatal conditions; empty means that doors can be opened.
func (r *Registry) NotReady() []Code {
	var codes []Code
	for _, c := range r.Conditions() {
		if c.Severity == Fatal {
			codes = append(codes, c.Code)
		}
	}
	return codes
}
