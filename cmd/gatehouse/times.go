package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeHelp describes in help texts which values the flags for times accept.
const timeHelp = `an RFC 3339 time (2026-11-21T08:00:00Z), a date (2026-11-21)
or a date and time (2026-11-21T08:00) in the time zone of the site`

// layouts are the forms of a moment that people may write; those without an
// offset are in the time zone of the site.
var layouts = [...]string{time.RFC3339, "2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"}

// past reads a moment, or how long ago it was ("24h", "7d"). An empty text is the
// zero time.
func (a *app) past(flag, text string) (time.Time, error) { return a.relative(flag, text, -1) }

// future reads a moment, or how far ahead it is.
func (a *app) future(flag, text string) (time.Time, error) { return a.relative(flag, text, 1) }

func (a *app) relative(flag, text string, sign int64) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, a.zone); err == nil {
			return t, nil
		}
	}
	if d, err := span(text); err == nil {
		return a.now().Add(time.Duration(sign * int64(d))), nil
	}
	return time.Time{}, wrongUsagef("--%s: %q is not a time: write it like 2026-11-21T08:00:00Z, 2026-11-21 or 24h", flag, text)
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// unitBits bounds numbers of days and weeks, so that no sum overflows.
const unitBits = 13

// span reads a duration as Go writes it, or a number of days or weeks.
func span(text string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": day, "w": week} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseUint(digits, 10, unitBits)
			if err != nil {
				return 0, fmt.Errorf("reading a number of days or weeks: %w", err)
			}
			return time.Duration(n) * unit, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		return 0, fmt.Errorf("%q is negative", text)
	}
	return d, err
}
