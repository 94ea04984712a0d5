package update

import "net/netip"

// CompareVersions is compareVersions.
func CompareVersions(a, b string) int { return compareVersions(a, b) }

// LongestTrial is when the last look of a trial ends, after the start, if the gateway is slow to answer.
const LongestTrial = stationsWithin + grace + steadyFor + 2*(lookEvery+askTimeout)

// IsPublic is isPublic of a text.
func IsPublic(text string) bool { return isPublic(netip.MustParseAddr(text)) }
