package update_test

import (
	"cmp"
	"os/exec"
	"slices"
	"testing"

	"gatehouse/internal/install/update"
	"gatehouse/internal/test/need"
)

// Versions are ordered as dpkg orders them: all pairs here as their ranks are, and each rank
// below the next for dpkg.
func TestCompareVersions(t *testing.T) {
	dpkg := need.Program(t, "dpkg")
	versions := []string{
		"1.0~rc1", "1.0~rc1+git2", "1.0", "1.0-1", "1.0-1+b1", "1.0+git1", "1.0.1", "1.00.2", "1.2.3", "1.2.10", "1.2.10-0.1",
		"1.2a", "1.2b", "1.2+", "1.10", "2", "2.0.0-rc.1", "2.0.0", "10.0", "0", "0.0", "1.0-0", "1.2.3+dirty", "1.2.3-5-gabcdef0",
	}
	slices.SortStableFunc(versions, update.CompareVersions)
	ranks := make([]int, len(versions))
	for i := range versions[1:] {
		a, b := versions[i], versions[i+1]
		operator := "eq"
		ranks[i+1] = ranks[i]
		if update.CompareVersions(a, b) != 0 {
			operator = "lt"
			ranks[i+1]++
		}
		if err := exec.CommandContext(t.Context(), dpkg, "--compare-versions", a, operator, b).Run(); err != nil {
			t.Errorf("%s %s %s here, and for dpkg not: %v", a, operator, b, err)
		}
	}
	for i, a := range versions {
		for j, b := range versions {
			if got, want := cmp.Compare(update.CompareVersions(a, b), 0), cmp.Compare(ranks[i], ranks[j]); got != want {
				t.Errorf("%s and %s compare to %d, want %d", a, b, got, want)
			}
		}
	}
}
