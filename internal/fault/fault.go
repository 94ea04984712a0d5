// Package fault adds to errors a kind and a sentence that a person may see. The
// kind is decided where the fact is known; the edges map kinds to statuses and
// exit codes in one table each, and show only the sentence. Whatever else an
// error carries is for the log.
package fault

import (
	"errors"
	"time"
)

// Kind is a class of errors, by what the caller can do about it.
type Kind int

// The kinds. Internal is the kind of every error that was given none.
const (
	Internal        Kind = iota // our fault; the log says more
	Invalid                     // the request cannot be right; change it
	Unauthenticated             // who asks is not known, or no longer
	Forbidden                   // who asks is known and may not
	NotFound                    // there is no such thing for the one who asks
	Conflict                    // it clashes with what is there
	Throttled                   // too many; wait
	Unavailable                 // cannot be done now; try again
	Timeout                     // took too long
)

// Kinds lists every kind, so that tests can prove tables complete.
func Kinds() []Kind {
	return []Kind{Internal, Invalid, Unauthenticated, Forbidden, NotFound, Conflict, Throttled, Unavailable, Timeout}
}

// Error is an error with a kind.
type Error struct {
	Kind       Kind
	Sentence   string        // safe to show; empty for a generic one
	RetryAfter time.Duration // for Throttled and Unavailable; zero when unknown
	Err        error         // the cause, for the log; may be nil
}

// Error returns the sentence and, where there is one, the cause.
func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Sentence
	case e.Sentence == "":
		return e.Err.Error()
	default:
		return e.Sentence + ": " + e.Err.Error()
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of kind with a sentence that a person may see.
func New(kind Kind, sentence string) error { return &Error{Kind: kind, Sentence: sentence} }

// Wrap adds to err a kind and a sentence that a person may see; nil stays nil.
func Wrap(kind Kind, sentence string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: kind, Sentence: sentence, Err: err}
}

// Throttle returns a Throttled error with the time to wait before a retry.
func Throttle(sentence string, after time.Duration) error {
	return &Error{Kind: Throttled, Sentence: sentence, RetryAfter: after}
}

// KindOf returns the kind of the outermost [Error] in err's chain, else Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is of kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// Sentence returns the sentence that a person may see; for errors without one, a
// generic sentence that says nothing of the cause.
func Sentence(err error) string { return sentenceOr(err, "Internal error") }

// Text is [Sentence] for people who may see why: without one the error is shown as it is.
func Text(err error) string { return sentenceOr(err, err.Error()) }

func sentenceOr(err error, other string) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Sentence != "" {
		return e.Sentence
	}
	return other
}

// RetryAfter returns how long the caller should wait, or zero.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}
