package update

import (
	"cmp"
	"strings"
)

// compareVersions orders versions as dpkg does (deb-version(7)), without an epoch: -1 if
// a is the older one.
func compareVersions(a, b string) int {
	upstreamA, revisionA := splitRevision(a)
	upstreamB, revisionB := splitRevision(b)
	return cmp.Or(comparePart(upstreamA, upstreamB), comparePart(revisionA, revisionB))
}

func splitRevision(version string) (upstream, revision string) {
	if i := strings.LastIndexByte(version, '-'); i >= 0 {
		return version[:i], version[i+1:]
	}
	return version, ""
}

// comparePart compares runs of other characters and numbers in turn.
func comparePart(a, b string) int {
	for a != "" || b != "" {
		var textA, textB, digitsA, digitsB string
		textA, a = cutRun(a, false)
		textB, b = cutRun(b, false)
		for i := range max(len(textA), len(textB)) {
			if c := cmp.Compare(weight(textA, i), weight(textB, i)); c != 0 {
				return c
			}
		}
		digitsA, a = cutRun(a, true)
		digitsB, b = cutRun(b, true)
		digitsA, digitsB = strings.TrimLeft(digitsA, "0"), strings.TrimLeft(digitsB, "0")
		if c := cmp.Or(cmp.Compare(len(digitsA), len(digitsB)), cmp.Compare(digitsA, digitsB)); c != 0 {
			return c
		}
	}
	return 0
}

// cutRun cuts off the digits that a text begins with, or what stands before its first one.
func cutRun(text string, digits bool) (run, rest string) {
	i := strings.IndexFunc(text, func(r rune) bool { return (r >= '0' && r <= '9') != digits })
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i:]
}

// weight is the rank of a character: a tilde sorts before the end, letters before all
// others.
func weight(text string, i int) int {
	if i >= len(text) {
		return 0
	}
	c := text[i]
	switch {
	case c == '~':
		return -1
	case c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z':
		return int(c)
	default:
		return int(c) + 256
	}
}
