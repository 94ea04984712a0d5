package config

import (
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
	bad := fmt.Errorf(`%s is not a size: write it like "256MB" or "19MiB"`, tomlfile.Quote(text))
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
		if err == nil {
			return time.Duration(n) * day, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%s is not a duration: write it like "5s", "10m" or "365d"`, tomlfile.Quote(text))
	}
	return d, nil
}

// assign puts a value of a TOML file into the field of a key. Its error has the value and
// what it should be.
func assign(k key, field any, n *tomlfile.Node) error {
	text, isText := n.Value.(string)
	whole, isWhole := n.Value.(int64)
	var ok bool
	var want string
	switch field := field.(type) {
	case *[]string:
		return assignList(k, field, n)
	case *string, *site.Secret:
		ok, want = isText, "is not a text: put it in quotes"
	case *bool:
		_, ok = n.Value.(bool)
		want = "is neither true nor false (without quotes)"
	case *int:
		ok, want = isWhole && whole == int64(int32(whole)), "is not a whole number, or far too large a one"
	case *float64:
		_, ok = n.Value.(float64)
		ok, want = ok || isWhole, "is not a number"
	default: // 0 needs no unit
		ok, want = isText || isWhole && whole == 0, "needs a unit and quotes, like "+example(field)
	}
	if !ok {
		return fmt.Errorf("%s %s", describe(n), want)
	}
	if !isText {
		text = fmt.Sprint(n.Value)
	}
	return assignText(field, text)
}

func assignList(k key, field *[]string, n *tomlfile.Node) error {
	if n.Items == nil {
		what := describe(n)
		if _, text := n.Value.(string); text { // not shown: among the keys of the cloud it may be a private one
			what = "a text"
		}
		return fmt.Errorf(`%s is not a list: write it like %s, or [] for none`, what, k.listExample())
	}
	list := make([]string, 0, len(n.Items))
	for _, item := range n.Items {
		text, ok := item.Value.(string)
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
			return fmt.Errorf("%s is neither true nor false", tomlfile.Quote(text))
		}
	case *int:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%s is not a whole number, or far too large a one", tomlfile.Quote(text))
		}
		*field = int(n)
	case *float64:
		if *field, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%s is not a number", tomlfile.Quote(text))
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
func describe(n *tomlfile.Node) string {
	if text, ok := n.Value.(string); ok {
		return tomlfile.Quote(text)
	}
	switch {
	case n.Items != nil:
		return "a list"
	case n.Keys != nil:
		return "a section"
	default:
		return tomlfile.Clip(fmt.Sprint(n.Value))
	}
}
