package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/health"
)

const (
	// cardBudget is what a card bears for years, in bytes a day; the gateway of a large
	// site writes less.
	cardBudget = 25e6

	// measureFrom is how long a machine must have run before it shows what is written a
	// day: a start writes more.
	measureFrom = day
	day         = 24 * time.Hour
)

// checkWrites reports what is written to the partition of the data: a card wears out by
// that.
func checkWrites(_ context.Context, g *subject, s *sheet) {
	written, partition, err := g.Machine.Written(g.folder())
	if err != nil {
		s.fine("What is written to the disk of the data is not counted on this machine", err.Error())
		return
	}
	up, err := g.Machine.Uptime()
	if err != nil {
		s.unread("how long the machine has run", err)
		return
	}
	total := fmt.Sprintf("%s since the machine was started, %s ago", machine.Size(written), age(up))
	if up < measureFrom {
		s.fine(total+", to "+partition, "what is written a day shows after a day")
		return
	}
	daily := int64(float64(written) * float64(day) / float64(up))
	rate := fmt.Sprintf("%s a day, to %s", machine.Size(daily), partition)
	if !strings.HasPrefix(partition, "mmcblk") {
		s.fine(rate, total)
		return
	}
	rate += "; a card is meant for " + machine.Size(cardBudget) + " a day"
	if daily > cardBudget {
		s.find(health.Notice, rate, "find what writes so much, first the log of the system: Storage=volatile in /etc/systemd/journald.conf; or have the data on a disk that is no card", total)
	}
	s.fine(rate, total)
}

// age returns a duration in days, or in hours and minutes.
func age(d time.Duration) string {
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
