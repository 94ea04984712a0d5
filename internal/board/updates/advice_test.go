package updates_test

import (
	"strings"
	"testing"

	"gatehouse/internal/board/updates"
)

func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		program string
		debian  bool
		want    string
	}{
		{"/usr/bin/gatehouse", true, "sudo apt-get install ./gatehouse_VERSION_"},
		{"/usr/bin/gatehouse", false, "sudo gatehouse service install"},
		{"/usr/local/bin/gatehouse", true, "sudo gatehouse service install"},
	} {
		if got := updates.AdviceFor(c.program, c.debian); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
