package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

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

// byteUnits are tried in this order, so that "B" comes last.
func byteUnits() []struct {
	name string
	size Bytes
} {
	return []struct {
		name string
		size Bytes
	}{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"kB", 1000},
		{"KB", 1000},
		{"MB", 1000 * 1000},
		{"GB", 1000 * 1000 * 1000},
		{"B", 1},
	}
}

// ParseBytes reads a size such as "256MB" or "19MiB"; a bare "0" needs no unit.
func ParseBytes(text string) (Bytes, error) {
	bad := fmt.Errorf(`%s is not a size: write it like "256MB" or "19MiB"`, quote(text))
	if text == "0" {
		return 0, nil
	}
	for _, unit := range byteUnits() {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimRight(digits, " "), 10, 63)
		if err != nil || Bytes(n) > math.MaxInt64/unit.size {
			return 0, bad
		}
		return Bytes(n) * unit.size, nil
	}
	return 0, bad
}

// String gives the size in the largest unit that divides it.
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
		if err == nil {
			return time.Duration(n) * day, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%s is not a duration: write it like "5s", "10m" or "365d"`, quote(text))
	}
	return d, nil
}

// assign puts a value of the TOML file into the field. The error says what the
// value is and what it should be.
func assign(field, value any) error {
	switch field := field.(type) {
	case *string:
		return assignString(field, value)
	case *site.Secret:
		return assignString((*string)(field), value)
	case *bool:
		return assignBool(field, value)
	case *int:
		return assignInt(field, value)
	case *float64:
		return assignFloat(field, value)
	case *[]string:
		return assignList(field, value)
	}
	if value == int64(0) {
		value = "0" // needs no unit
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s needs a unit and quotes, like %s", describe(value), example(field))
	}
	return assignText(field, text)
}

func assignString(field *string, value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s is not a text: put it in quotes", describe(value))
	}
	*field = text
	return nil
}

func assignBool(field *bool, value any) error {
	is, ok := value.(bool)
	if !ok {
		return fmt.Errorf("%s is neither true nor false (without quotes)", describe(value))
	}
	*field = is
	return nil
}

func assignInt(field *int, value any) error {
	n, ok := value.(int64)
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return fmt.Errorf("%s is not a whole number, or far too large a one", describe(value))
	}
	*field = int(n)
	return nil
}

func assignFloat(field *float64, value any) error {
	switch n := value.(type) {
	case float64:
		*field = n
	case int64:
		*field = float64(n)
	default:
		return fmt.Errorf("%s is not a number", describe(value))
	}
	return nil
}

func assignList(field *[]string, value any) error {
	items, ok := value.([]any)
	if !ok {
		what := describe(value)
		if _, text := value.(string); text { // not shown: among the keys of the cloud it may be a private one
			what = "a text"
		}
		return fmt.Errorf(`%s is not a list: write it like ["127.0.0.1:8080"], or [] for none`, what)
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			return fmt.Errorf("%s in the list is not a text: put it in quotes", describe(item))
		}
		list = append(list, text)
	}
	*field = list
	return nil
}

// assignText puts a text, as the environment has it, into the field.
func assignText(field any, text string) (err error) {
	switch field := field.(type) {
	case *string:
		*field = text
	case *site.Secret:
		*field = site.Secret(text)
	case *[]string:
		*field = splitList(text)
	case *bool:
		if *field, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%s is neither true nor false", quote(text))
		}
	case *int:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%s is not a whole number, or far too large a one", quote(text))
		}
		*field = int(n)
	case *float64:
		if *field, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%s is not a number", quote(text))
		}
	case *time.Duration:
		*field, err = parseDuration(text)
	case *Bytes:
		*field, err = ParseBytes(text)
	default:
		return fmt.Errorf("settings of type %T cannot be read", field)
	}
	return err
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

// example shows how a value of the field is written.
func example(field any) string {
	if _, ok := field.(*Bytes); ok {
		return `"256MB"`
	}
	return `"5s"`
}

// describe shows a TOML value in an error.
func describe(value any) string {
	switch value := value.(type) {
	case string:
		return quote(value)
	case []any, []map[string]any:
		return "a list"
	case map[string]any:
		return "a section"
	default:
		return oneLine(clip(fmt.Sprint(value)))
	}
}

// oneLine shows what cannot be printed as a question mark.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// quote and clip keep a text from outside short and on one line.
func quote(text string) string { return strconv.Quote(clip(text)) }

func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
