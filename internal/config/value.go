package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// day is what "1d" means.
const day = 24 * time.Hour

// The units of [Bytes] that the bounds in the table are written in.
const (
	mebibyte Bytes = 1 << 20
	megabyte Bytes = 1000 * 1000
)

// Bytes is an amount of memory or storage. As text it is a number with a unit:
// "256MB" (decimal: B, kB, MB, GB) or "19MiB" (binary: KiB, MiB, GiB).
type Bytes int64

// unit is a unit of [Bytes].
type unit struct {
	name string
	size Bytes
}

// byteUnits are tried in this order, so that "B" comes last.
func byteUnits() []unit {
	return []unit{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"B", 1},
	}
}

// ParseBytes reads a size such as "256MB" or "19MiB"; a bare "0" needs no unit.
func ParseBytes(text string) (Bytes, error) {
	if text == "0" {
		return 0, nil
	}
	for _, unit := range byteUnits() {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimRight(digits, " "), 10, 63)
		if err == nil && Bytes(n) <= math.MaxInt64/unit.size {
			return Bytes(n) * unit.size, nil
		}
		break
	}
	return 0, errors.New("not a size")
}

// String returns the size in the largest unit that divides it.
func (b Bytes) String() string {
	best, name := Bytes(1), "B"
	for _, unit := range byteUnits() {
		if unit.size > best && b != 0 && b%unit.size == 0 {
			best, name = unit.size, unit.name
		}
	}
	return strconv.FormatInt(int64(b/best), 10) + name
}

// parseDuration reads "5s", "1h30m" and "30d".
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err //nolint:wrapcheck // parseInto words it
	}
	return time.ParseDuration(text) //nolint:wrapcheck // as above
}

// assign puts a value of a TOML file into the field of a key. Its error states what the
// value should be, and contains the value only where that is a number or the like.
func assign(field, value any) error {
	text, isText := value.(string)
	switch field := field.(type) {
	case *[]string:
		return assignList(field, value)
	case *string, *site.Secret:
		if !isText {
			return errors.New("it is not a text: put it in quotes")
		}
	case *bool, *int, *float64:
		if isText {
			return errors.New("it is a text: write it without quotes")
		}
	}
	if !isText {
		text = fmt.Sprint(value)
	}
	return assignText(field, text)
}

func assignList(field *[]string, value any) error {
	items, isList := value.([]any)
	list := make([]string, len(items))
	for i, item := range items {
		if list[i], isList = item.(string); !isList {
			break
		}
	}
	if !isList {
		return errors.New(`it is not a list of texts: write it like ["a", "b"], or [] for none`)
	}
	*field = list
	return nil
}

// assignText puts a text, as the environment has it, into the field. After an error the
// field is as it was.
func assignText(field any, text string) error {
	switch field := field.(type) {
	case *string:
		*field = text
	case *site.Secret:
		*field = site.Secret(text)
	case *[]string:
		*field = splitList(text)
	case *bool:
		return parseInto(field, text, strconv.ParseBool, "is neither true nor false")
	case *int:
		return parseInto(field, text, func(text string) (int, error) {
			n, err := strconv.ParseInt(text, 10, 32)
			return int(n), err //nolint:wrapcheck // parseInto words it
		}, "is not a whole number, or far too large a one")
	case *float64:
		return parseInto(field, text, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }, "is not a number")
	case *time.Duration:
		return parseInto(field, text, parseDuration, `is not a duration: write it like "5s", "10m" or "365d"`)
	case *Bytes:
		return parseInto(field, text, ParseBytes, `is not a size: write it like "256MB" or "19MiB"`)
	default:
		return fmt.Errorf("settings of type %T cannot be read", field)
	}
	return nil
}

func parseInto[T any](field *T, text string, parse func(string) (T, error), what string) error {
	value, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s %s", tomlfile.Quote(text), what)
	}
	*field = value
	return nil
}

// splitList reads "a, b"; the empty text is the empty list.
func splitList(text string) []string {
	list := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}
