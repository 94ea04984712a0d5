package main

import (
	"strings"
	"testing"
	"time"
)

const ourChangelog = `# Changelog

Words about it.

## Unreleased

### Added

- A thing that is described at such length with ` + "`code`" + ` in it that its line must be broken somewhere,
  and goes on.

## 1.2.0-rc.1 (2026-12-01)

### Fixed

- A fault.
`

func built(t *testing.T, version, text string) string {
	t.Helper()
	releases, err := parseChangelog(text)
	if err != nil {
		t.Fatal(err)
	}
	j := job{version: version, maintainer: "Us <us@gatehouse.example>", time: time.Unix(1795253654, 0).UTC()}
	return j.debianChangelog(releases)
}

func TestJob_debianChangelog(t *testing.T) {
	const want = `gatehouse (1.3.0~git1) stable; urgency=medium

  [ Added ]
  * A thing that is described at such length with code in it that its line must
    be broken somewhere, and goes on.

 -- Us <us@gatehouse.example>  Sat, 21 Nov 2026 09:34:14 +0000

gatehouse (1.2.0~rc.1) stable; urgency=medium

  [ Fixed ]
  * A fault.

 -- Us <us@gatehouse.example>  Tue, 01 Dec 2026 00:00:00 +0000
`
	if got := built(t, "1.3.0~git1", ourChangelog); got != want {
		t.Errorf("the changelog is\n%s", got)
	}
}

// The version that is built is at the top, also without an entry in the changelog.
func TestJob_debianChangelog_top(t *testing.T) {
	_, released, _ := strings.Cut(ourChangelog, "and goes on.\n")
	for version, want := range map[string]string{
		"1.2.0~rc.1":            "gatehouse (1.2.0~rc.1) stable; urgency=medium\n\n  [ Fixed ]",
		"1.2.0~rc.1+3.gabcdef0": "gatehouse (1.2.0~rc.1+3.gabcdef0) stable; urgency=medium\n\n  * Nothing",
	} {
		if got := built(t, version, released); !strings.HasPrefix(got, want) {
			t.Errorf("built as %s, the changelog is\n%s", version, got)
		}
	}
}

func TestParseChangelog_refused(t *testing.T) {
	for name, text := range map[string]string{
		"a release without a day": "## 1.2.0\n\n### Added\n\n- x\n",
		"a day that is none":      "## 1.2.0 (2026-13-01)\n",
		"a change in no group":    "## Unreleased\n\n- x\n",
		"prose":                   "## Unreleased\n\n### Added\n\nWords.\n",
	} {
		if _, err := parseChangelog(text); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
