package update_test

import (
	"errors"
	"os/exec"
	"testing"

	"gatehouse/internal/install/update"
)

// Versions are ordered as dpkg orders them.
func TestCompareVersions(t *testing.T) {
	versions := []string{
		"1.0~rc1", "1.0~rc1+git2", "1.0", "1.0-1", "1.0-1+b1", "1.0+git1", "1.0.1", "1.00.2", "1.2.3", "1.2.10", "1.2.10-0.1",
		"1.2a", "1.2b", "1.2+", "1.10", "2", "2.0.0-rc.1", "2.0.0", "10.0", "0", "0.0", "1.0-0", "1.2.3+dirty", "1.2.3-5-gabcdef0",
	}
	for _, a := range versions {
		for _, b := range versions {
			for operator, holds := range map[string]bool{
				"lt": update.CompareVersions(a, b) < 0, "eq": update.CompareVersions(a, b) == 0,
			} {
				err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", a, operator, b).Run()
				if _, no := errors.AsType[*exec.ExitError](err); err != nil && !no {
					t.Fatal(err)
				}
				if holds != (err == nil) {
					t.Errorf("%s %s %s is %t here and %t for dpkg", a, operator, b, holds, err == nil)
				}
			}
		}
	}
}
