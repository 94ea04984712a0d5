package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"filippo.io/age"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// workFactor is the exponent of scrypt's N, which is what a guess of the passphrase costs;
// see the doc of the package.
const workFactor = 16

// MinPassphrase is the least length of a passphrase for a new backup, in characters. An
// attacker who has the file can guess without limit, so it must be longer than a
// password, whose guesses the gateway counts.
const MinPassphrase = 16

// JudgePassphrase refuses a passphrase that is too weak for a new backup, with a
// sentence with the reason. An old backup opens with the one that it was made with.
func JudgePassphrase(passphrase site.Secret) error {
	const advice = "use four words that do not belong together, or run gatehouse backup in a terminal to be offered one"
	switch {
	case utf8.RuneCountInString(passphrase.Reveal()) < MinPassphrase:
		return fault.New(fault.Invalid, fmt.Sprintf("The passphrase is too short: it needs at least %d characters; %s", MinPassphrase, advice))
	case !utf8.ValidString(passphrase.Reveal()):
		return fault.New(fault.Invalid, "The passphrase is not valid UTF-8: write it again with an editor that saves UTF-8")
	case site.Predictable(passphrase):
		return fault.New(fault.Invalid, "The passphrase is among the first that a program would guess: "+advice)
	}
	return nil
}

// GeneratePassphrase returns a passphrase of 100 random bits that is easy to write down:
// five groups of four letters and digits of base32, which has no 0, 1, 8 or 9.
func GeneratePassphrase() site.Secret {
	r := strings.ToLower(rand.Text())
	return site.Secret(strings.Join([]string{r[:4], r[4:8], r[8:12], r[12:16], r[16:20]}, "-"))
}

// Seal reads the archive of a gateway's data (as [Parcel.Write] writes it), adds the
// configuration, and writes the encrypted backup. An error of w or data comes back with
// the kind that it has; a broken archive is Unavailable.
func Seal(ctx context.Context, w io.Writer, passphrase site.Secret, data io.Reader, configuration []Loaded) (Manifest, error) {
	if err := JudgePassphrase(passphrase); err != nil {
		return Manifest{}, err
	}
	in, err := openArchive("The gateway's data", untilDone(ctx, data))
	if err != nil {
		return Manifest{}, brokeOff(err)
	}
	m := in.Manifest
	// The configuration is not the gateway's to choose: root restores it.
	if slices.ContainsFunc(m.Files, func(e Entry) bool { return strings.HasPrefix(e.Name, underConfig) }) {
		return Manifest{}, brokeOff(errors.New("there is a configuration among the data"))
	}
	m.Files = slices.Clone(m.Files)
	for _, c := range configuration {
		m.Files = append(m.Files, c.Entry)
	}
	sealed, finish, err := seal(w, passphrase, workFactor)
	if err != nil {
		return Manifest{}, err
	}
	out, err := newArchiver(sealed, m)
	if err == nil {
		err = in.each(out.add)
	}
	for _, c := range configuration {
		if err == nil {
			err = out.add(c.Entry, bytes.NewReader(c.Text))
		}
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return Manifest{}, brokeOff(err)
	}
	return m, finish()
}

// Seal writes the parcel as a backup without a configuration. It may be called once.
func (p *Parcel) Seal(w io.Writer, passphrase site.Secret) error {
	sealed, finish, err := seal(w, passphrase, workFactor)
	if err == nil {
		err = p.Write(sealed)
	}
	if err == nil {
		err = finish()
	}
	return err
}

// brokeOff wraps an error of the gateway's archive with a sentence, unless it has one.
func brokeOff(err error) error {
	return worded(fault.Unavailable, "The gateway broke off while it sent its data: look at its log and try again", err)
}

// worded adds a sentence to an error that has none; nil stays nil.
func worded(kind fault.Kind, sentence string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(kind, sentence, err)
}

// seal returns a writer that compresses and encrypts what goes to w, at that cost, and a function that
// writes what is left: without it the file is cut off.
func seal(w io.Writer, passphrase site.Secret, cost int) (sealed io.Writer, finish func() error, err error) {
	recipient, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return nil, nil, fmt.Errorf("taking the passphrase: %w", err)
	}
	recipient.SetWorkFactor(cost)
	encrypted, err := age.Encrypt(w, recipient)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypting: %w", err)
	}
	compressed, err := gzip.NewWriterLevel(encrypted, gzip.BestSpeed)
	return compressed, func() error { return errors.Join(compressed.Close(), encrypted.Close()) }, err
}
