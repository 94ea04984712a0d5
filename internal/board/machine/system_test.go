package machine_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/machine"
)

func TestSynchronised(t *testing.T) {
	folder := t.TempDir()
	mark, missing := filepath.Join(folder, "synchronized"), filepath.Join(folder, "missing")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		maxError int64
		err      error
		file     string
		want     bool
	}{
		{"disciplined", 250_000, nil, missing, true},
		{"never disciplined", 16_000_000, nil, mark, false},
		{"forbidden", 0, errors.New("not permitted"), missing, false},
		{"forbidden, timesyncd did it", 0, errors.New("not permitted"), mark, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := machine.SynchronisedBy(test.maxError, test.err, test.file); got != test.want {
				t.Errorf("synchronised is %t", got)
			}
		})
	}
}

func TestDisableCoreDumps(t *testing.T) {
	for range 2 { // the second time from the lowered limit
		if err := machine.DisableCoreDumps(); err != nil {
			t.Fatal(err)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur > 1 || limit.Max > 1 {
		t.Errorf("core dumps may have %d bytes, and at most %d", limit.Cur, limit.Max)
	}
}
