package site

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what every printing of a Secret shows.
const redacted = "redacted"

// Secret is a password, a token or a key in clear text. Whatever prints it (fmt
// with any verb, slog, encoding/json, text marshalling) shows "redacted"; only
// [Secret.Reveal] returns the text, so that each place that hands one out can be
// found by that name.
type Secret string

// Reveal returns the clear text, for comparing, hashing or handing out once.
func (s Secret) Reveal() string { return string(s) }

// String implements [fmt.Stringer].
func (s Secret) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (s Secret) GoString() string { return redacted }

// Format implements [fmt.Formatter], so that verbs such as %x and %q do not get
// around String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements [encoding.TextMarshaler]; encoding/json uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]: secrets may come in.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}
