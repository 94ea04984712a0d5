package sitefile

import (
	"bytes"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"gatehouse/internal/site"
)

// Redact gives the text of a file that [ParseMixed] has read, without its secrets
// and exactly as long: so it can be written over the bytes of the file. The values of
// password, secret, token and the like are empty texts, and comments, in which old
// ones may stand, are blank. A text whose secrets cannot be found for certain
// becomes blank as a whole.
func Redact(data []byte) []byte {
	body := bytes.TrimPrefix(data, []byte(mark))
	out := slices.Clone(data)
	start := len(data) - len(body)
	redact(out[start:])
	if !clean(body, out[start:]) {
		blank(out[start:])
	}
	return out
}

// redact empties what the scanner finds.
func redact(text []byte) {
	s := &scanner{text: string(text), line: 1, count: map[string]int{}, at: map[string]int{}}
	s.comment = func(from, to int) { blank(text[from:to]) }
	s.single = func(path string, from, to int) {
		to = min(to, len(text)) // it may run over the end of what is not TOML
		if holdsSecret(path) && to-from >= len(`""`) {
			fill(text[from:to])
			copy(text[from:], `""`)
		}
	}
	s.document()
}

// holdsSecret reports whether a part of path is the name of a secret.
func holdsSecret(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "."), func(part string) bool {
		name, _, _ := strings.Cut(part, "[")
		return site.IsSecretName(name)
	})
}

// blank leaves nothing but the line ends.
func blank(text []byte) {
	for i, c := range text {
		if c != '\n' && c != '\r' {
			text[i] = ' '
		}
	}
}

// fill leaves nothing at all: within one value a line end may not stand.
func fill(text []byte) {
	for i := range text {
		text[i] = ' '
	}
}

// clean reports whether none of the secrets of before stands in after, which must
// still be TOML: else the scanner has lost its way.
func clean(before, after []byte) bool {
	doc := map[string]any{}
	if _, err := toml.Decode(string(before), &doc); err != nil {
		return false
	}
	var rest map[string]any
	if _, err := toml.Decode(string(after), &rest); err != nil {
		return false
	}
	return !slices.ContainsFunc(secretsIn(doc, false), func(secret string) bool {
		return secret != "" && bytes.Contains(after, []byte(secret))
	})
}

// secretsIn gives every text under the name of a secret; within says that value lies
// under one already.
func secretsIn(value any, within bool) (found []string) {
	switch v := value.(type) {
	case string:
		if within {
			found = append(found, v)
		}
	case map[string]any:
		for name, inner := range v {
			found = append(found, secretsIn(inner, within || site.IsSecretName(name))...)
		}
	case []map[string]any:
		for _, inner := range v {
			found = append(found, secretsIn(inner, within)...)
		}
	case []any:
		for _, inner := range v {
			found = append(found, secretsIn(inner, within)...)
		}
	}
	return found
}
