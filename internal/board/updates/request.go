package updates

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// MaxURL is the longest URL of an update, in bytes.
	MaxURL = 2 << 10
	// MaxAhead is how far the moment of an update may lie ahead.
	MaxAhead = 7 * 24 * time.Hour
	// shownURL is how much of a URL a record has, in bytes.
	shownURL = 200
)

// Order is what someone asks for: one of URL, File, Rollback and Withdraw.
type Order struct {
	URL      string    // https://HOST/PATH
	File     bool      // the file that was uploaded
	Rollback bool      // the version in the other slot
	Withdraw bool      // of the version that waits for its moment
	SHA256   string    // of the update, 64 lower-case hex digits; "" where none is stated
	At       time.Time // when the board restarts into it; zero: as soon as it is written
	Until    time.Time // the end of a window, in which an update that is written after At has another moment; zero: none

	JTI       string      // the cloud's id of a signed command
	Permitted func() bool // asked last before root is: whether it may still be carried out; nil: it may
}

// errWithdrawn refuses an order that is no longer permitted.
var errWithdrawn = fault.New(fault.Forbidden, "The update is no longer permitted")

// Request asks root for an update, and returns the id of the request. How the update goes
// on is in Status. Errors: Invalid for an order that cannot be right; Conflict where this system
// is not an image with two slots, or an update or another request is in progress; Forbidden where
// it is no longer permitted; Unavailable where root cannot be asked, and for a signed command
// whose record cannot be made durable: nothing was asked then, and there is no id.
func (s *Service) Request(by site.Actor, o Order) (site.CommandID, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := s.Check(o); err != nil {
		return "", err
	}
	id := site.CommandID(uuid.Must(uuid.NewV7()).String())
	record := site.Record{Kind: site.KindUpdate, Facts: site.ByActor(by)}
	record.Command, record.JTI, record.Outcome, record.Detail = id, o.JTI, site.Requested, o.text()
	if durable := s.Journal.Intend(record); !durable && o.JTI != "" {
		s.end(record, site.Refused, "the storage takes no writes")
		return "", fault.New(fault.Unavailable, "The storage takes no writes: signed commands are not carried out without a durable record")
	}
	if o.Permitted != nil && !o.Permitted() {
		s.end(record, site.Refused, fault.Sentence(errWithdrawn))
		return id, errWithdrawn
	}
	action := slot.Update
	switch {
	case o.Rollback:
		action = slot.Rollback
	case o.Withdraw:
		action = slot.Withdraw
	}
	err := s.Exchange.Ask(slot.Request{
		ID: string(id), Action: action, URL: o.URL, File: o.File, SHA256: o.SHA256, At: site.At(o.At), Until: site.At(o.Until),
	})
	if err != nil {
		s.Logger.Error("the request for an update cannot be left for root", "error", err)
		s.end(record, site.Failed, "the request could not be left for root")
		return id, fault.Wrap(fault.Unavailable, "The request for the update cannot be written: run gatehouse doctor", err)
	}
	s.end(record, site.Accepted, "")
	s.Logger.Info("root is asked for an update", "by", by.Name, "key", by.KeyID, "request", id, "update", o.source())
	return id, nil
}

// end records what became of a request.
func (s *Service) end(record site.Record, outcome site.Outcome, why string) {
	record.Outcome, record.Detail = outcome, why
	s.Journal.AppendLater(record)
}

// free returns why no update can be asked for now.
func (s *Service) free() error {
	switch status := s.Status(); {
	case !status.Image:
		return fault.New(fault.Conflict, strings.TrimSuffix(status.Advice, "."))
	case status.Default == "":
		return fault.New(fault.Conflict, "No update is possible: "+status.Trouble)
	case s.Exchange.Asked():
		return fault.New(fault.Conflict, `Another request for an update waits to be taken: try again in some minutes; if it stays, "systemctl status gatehouse-update" says why`)
	case status.Phase == "", status.Phase == site.UpdateIdle, status.Phase == site.UpdateWaiting: // of what waits root decides
		return nil
	default:
		return fault.New(fault.Conflict, fmt.Sprintf("An update is in progress (%s): wait until it has ended", status.Phase))
	}
}

// Check returns the error that Request would return for an order at once, and nil where it
// would ask root.
func (s *Service) Check(o Order) error {
	if err := s.check(o); err != nil {
		return err
	}
	return s.free()
}

// sumForm is the form of a SHA-256.
var sumForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check refuses an order that cannot be right.
func (s *Service) check(o Order) error {
	from := 0
	for _, stated := range []bool{o.URL != "", o.File, o.Rollback, o.Withdraw} {
		if stated {
			from++
		}
	}
	if from != 1 {
		return fault.New(fault.Invalid, "An update comes either from a URL or from an uploaded file")
	}
	if o.URL != "" {
		if err := CheckURL(o.URL); err != nil {
			return err
		}
	}
	if o.SHA256 != "" && !sumForm.MatchString(o.SHA256) {
		return fault.New(fault.Invalid, "The SHA-256 of an update is 64 digits 0-9 and a-f")
	}
	if now := s.Clock.Now(); !o.At.IsZero() && (o.At.Before(now.Add(-time.Minute)) || o.At.After(now.Add(MaxAhead+time.Minute))) {
		return fault.New(fault.Invalid, "The moment of an update lies ahead, by seven days at most")
	}
	return nil
}

// CheckURL accepts where an update may be fetched from. The error is Invalid, and does not
// have the URL, which may hold a password.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, len(text) > MaxURL, u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return fault.New(fault.Invalid, fmt.Sprintf("The URL of an update has the form https://HOST/PATH and at most %d bytes", MaxURL))
	case u.User != nil:
		return fault.New(fault.Invalid, "The URL of an update must not have a user name or a password")
	}
	return nil
}

// source is where the update comes from, without what may be secret.
func (o Order) source() string {
	u, err := url.Parse(o.URL)
	switch {
	case o.Rollback:
		return "the version in the other slot"
	case o.Withdraw:
		return "no restart into the version that waits"
	case err != nil || o.File:
		return "an uploaded file"
	}
	text := "https://" + u.Host + u.EscapedPath()
	if len(text) > shownURL {
		text = text[:shownURL] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// text is what is asked for, for the record.
func (o Order) text() string {
	text := o.source()
	if o.SHA256 != "" {
		text += ", SHA-256 " + o.SHA256
	}
	if !o.At.IsZero() {
		text += ", restart at " + site.At(o.At).String()
		if !o.Until.IsZero() {
			text += " or, if it is written later, until " + site.At(o.Until).String()
		}
	}
	return text
}
