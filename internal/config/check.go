package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/setup/tomlfile"
)

// check returns what is wrong with the value that field points to, as the rest of a
// sentence that begins with the key; nil is right.
type check func(field any) error

// anything accepts every value.
func anything(any) error { return nil }

// between accepts the values from low to high, both included. It refuses NaN.
func between[T cmp.Ordered](low, high T) check {
	return func(field any) error {
		value := *field.(*T)
		if value >= low && value <= high {
			return nil
		}
		return fmt.Errorf("%v is out of range: %v to %v", value, low, high)
	}
}

// zeroOr accepts zero beside what next accepts.
func zeroOr(next check) check {
	return func(field any) error {
		err := next(field)
		if err == nil || reflect.ValueOf(field).Elem().IsZero() {
			return nil
		}
		return fmt.Errorf("%w, or 0", err)
	}
}

// wholeSeconds accepts the whole seconds of what next accepts: the protocols have no
// others.
func wholeSeconds(next check) check {
	return func(field any) error {
		if d := *field.(*time.Duration); d%time.Second != 0 {
			return fmt.Errorf("%s is not a whole number of seconds", d)
		}
		return next(field)
	}
}

func oneOf(words ...string) check {
	return func(field any) error {
		if text, ok := field.(*string); ok && slices.Contains(words, *text) {
			return nil
		}
		return fmt.Errorf("%s is none of %s", tomlfile.Quote(*field.(*string)), strings.Join(words, ", "))
	}
}

func directory(field any) error {
	if text, ok := field.(*string); ok && *text != "" {
		return nil
	}
	return fmt.Errorf("there is no folder to keep the data in: name one as data, or as %sDATA", prefix)
}

// hostLabel accepts a name that may be part of a host name (RFC 1123, 2.1), or none.
func hostLabel(field any) error {
	const longest, letters = 63, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	text := *field.(*string)
	if len(text) <= longest && strings.Trim(text, letters+"-") == "" && !strings.HasPrefix(text, "-") && !strings.HasSuffix(text, "-") {
		return nil
	}
	return fmt.Errorf(`%s cannot be a host name: write up to %d letters, digits and hyphens, like "north-gate"`, tomlfile.Quote(text), longest)
}

func timeZone(field any) error {
	if text, ok := field.(*string); ok {
		if _, err := time.LoadLocation(*text); err != nil {
			return fmt.Errorf(`%s is not a time zone that this system knows: write it like "Europe/Berlin"`, tomlfile.Quote(*text))
		}
	}
	return nil
}

// addresses checks a list of listeners, such as "127.0.0.1:8080", "[::1]:8080", ":8080"
// and "localhost:8080".
func addresses(field any) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, text := range *field.(*[]string) {
		host, port, err := net.SplitHostPort(text)
		_, notIP := netip.ParseAddr(host)
		_, notPort := strconv.ParseUint(port, 10, 16)
		isName := host == "" || strings.ContainsAny(host, letters) && strings.Trim(host, letters+"0123456789.-") == ""
		if err != nil || notPort != nil || notIP != nil && !isName {
			return fmt.Errorf(`%s is not an address to listen on: write it like "127.0.0.1:8080", or "0.0.0.0:8080" for every IPv4 network`, tomlfile.Quote(text))
		}
	}
	return nil
}
