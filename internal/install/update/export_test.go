package update

// CompareVersions is compareVersions.
func CompareVersions(a, b string) int { return compareVersions(a, b) }
