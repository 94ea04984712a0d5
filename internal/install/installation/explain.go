package installation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// logHint says where more is told.
const logHint = "The log says more: journalctl --unit=gatehouse.service --unit=gatehouse.socket --lines=50"

const (
	// maxReasons bounds how many lines of the log an error quotes.
	maxReasons = 3

	// explainTimeout bounds the look into the log, also after an interruption.
	explainTimeout = 20 * time.Second
)

// busyPort is what systemd says of a port that another program holds.
var busyPort = regexp.MustCompile(`listening socket \((?:\S*:)?(\d+)\): Address already in use`)

// explain words the failure of systemd with what the log has said since: systemctl
// gives an exit status only.
func (s *Service) explain(ctx context.Context, failure error, since time.Time) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	out, err := s.run(ctx, "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=200",
		fmt.Sprintf("--since=@%d", since.Unix()), "--unit="+socketUnit, "--unit="+serviceUnit)
	reasons := telling(out)
	if err != nil || len(reasons) == 0 {
		return failure.Error()
	}
	text := strings.Join(reasons, "\n")
	if port := busyPort.FindStringSubmatch(text); port != nil {
		return fmt.Sprintf("another program holds the port %s: find it with \"ss -ltnp\" and stop it, or name other ports in %s.d/ports.conf and in %s",
			port[1], unitPath(socketUnit), configFile)
	}
	return text
}

// telling picks what says why: the complaints of the gateway itself, else those of
// systemd about its units.
func telling(log string) []string {
	var ours, systemds []string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		own, is := strings.CutPrefix(line, "gatehouse: ")
		if line == serviceUnit+": Failed with result 'timeout'." {
			line = serviceUnit + ": Failed to become ready in time"
		}
		switch {
		case is && !slices.Contains(ours, own):
			ours = append(ours, own)
		case strings.Contains(line, ", ignoring: "), slices.Contains(systemds, line):
		case strings.HasPrefix(line, "gatehouse") && strings.Contains(line, ": Failed "):
			systemds = append(systemds, line)
		}
	}
	if len(ours) == 0 {
		ours = systemds
	}
	return ours[:min(len(ours), maxReasons)]
}
