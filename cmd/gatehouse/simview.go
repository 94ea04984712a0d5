package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
)

// feed carries the events of the stations to the view. A view that cannot follow
// holds up no station: what does not fit is counted.
type feed struct {
	events chan stationsim.Event
	lost   atomic.Int64
}

func newFeed() *feed { return &feed{events: make(chan stationsim.Event, 4096)} }

func (f *feed) put(e stationsim.Event) {
	select {
	case f.events <- e:
	default:
		f.lost.Add(1)
	}
}

// close ends the feed, after the last put.
func (f *feed) close() { close(f.events) }

// show shows the stations until the feed ends.
func (a *app) show(fleet *stationsim.Fleet, f *feed, broker string) error {
	if a.json {
		for e := range f.events {
			if err := a.document(e); err != nil {
				return err
			}
		}
		return nil
	}
	title := fmt.Sprintf("%s on %s", plural(len(fleet.Stations), "simulated station"), broker)
	if screen, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(screen.Fd())) {
		if err := a.showLive(screen, title, fleet, f); err != nil {
			return err
		}
	} else if err := a.showLines(title, fleet, f); err != nil {
		return err
	}
	return a.sumUp(fleet, f)
}

// showLines writes a line for each event that is not just a report.
func (a *app) showLines(title string, fleet *stationsim.Fleet, f *feed) error {
	width := 0
	for _, s := range fleet.Statuses() {
		width = max(width, len(s.ID.String()))
	}
	w := a.text()
	w.printf("%s; interrupt to end.", title)
	for e := range f.events {
		if e.Kind != stationsim.Reported {
			w.printf("%s  station %-*s  %s", a.local(e.Time.Time), width, e.Station, eventText(e))
		}
	}
	return w.err
}

// eventText returns "opened lock-1" and the like.
func eventText(e stationsim.Event) string {
	text := string(e.Kind)
	if e.Lock != "" {
		text += " " + e.Lock
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return printable(text)
}

func (a *app) sumUp(fleet *stationsim.Fleet, f *feed) error {
	commands, opened := 0, 0
	for _, s := range fleet.Statuses() {
		commands += s.Commands
		opened += s.Opened
	}
	w := a.text()
	w.printf("%s received, %s.", plural(commands, "command"), plural(opened, "opening"))
	if lost := f.lost.Load(); lost > 0 {
		w.printf("%d events came too fast to be shown.", lost)
	}
	return w.err
}

// The control sequences of the live view (ECMA-48, and the alternate screen that
// terminals took over from xterm).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// redraw is the shortest time between two pictures.
const redraw = 250 * time.Millisecond

// showLive keeps a table of the stations on the terminal's alternate screen, and leaves
// that at the end.
func (a *app) showLive(screen *os.File, title string, fleet *stationsim.Fleet, f *feed) (err error) {
	if _, err := screen.WriteString(enterScreen); err != nil {
		return fmt.Errorf("writing to the terminal: %w", err)
	}
	defer func() {
		if _, back := screen.WriteString(leaveScreen); err == nil && back != nil {
			err = fmt.Errorf("writing to the terminal: %w", back)
		}
	}()
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	stale, size := true, [2]int{}
	for {
		select {
		case _, open := <-f.events:
			if !open {
				return nil
			}
			stale = true
		case <-tick.C:
			now := terminalSize(screen)
			if !stale && now == size {
				continue
			}
			stale, size = false, now
			if err := draw(screen, a.picture(title, fleet.Statuses(), size[0], size[1])); err != nil {
				return err
			}
		}
	}
}

// terminalSize returns columns and rows; 80 and 24 where the terminal does not say.
func terminalSize(screen *os.File) [2]int {
	width, height, err := term.GetSize(int(screen.Fd()))
	if err != nil || width < 1 || height < 1 {
		return [2]int{80, 24}
	}
	return [2]int{width, height}
}

func draw(screen *os.File, picture []string) error {
	frame := toTop + strings.Join(picture, eraseLine+"\r\n") + eraseLine + eraseBelow
	if _, err := screen.WriteString(frame); err != nil {
		return fmt.Errorf("writing to the terminal: %w", err)
	}
	return nil
}

// picture returns the lines of the live view: at most height, none wider than width.
func (a *app) picture(title string, stations []stationsim.Status, width, height int) []string {
	connected, commands, opened := 0, 0, 0
	for _, s := range stations {
		commands += s.Commands
		opened += s.Opened
		if s.Connected {
			connected++
		}
	}
	var text strings.Builder
	w := &lines{w: &text}
	w.printf("%s: %d connected, %s, %s (Ctrl-C ends)", title, connected, plural(commands, "command"), plural(opened, "opening"))
	w.printf("")
	room := max(height-3, 0) // the two lines above and the head
	hidden := 0
	if len(stations) > room {
		hidden = len(stations) - max(room-1, 0)
		stations = stations[:len(stations)-hidden]
	}
	rows := make([][]string, len(stations))
	for i, s := range stations {
		rows[i] = a.stationRow(s)
	}
	w.table([]string{"STATION", "NAME", "LINK", "BATTERY", "LOCKS", "OPENED", "LATEST"}, rows)
	if hidden > 0 {
		w.printf("… and %d more", hidden)
	}
	picture := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	for i, line := range picture {
		picture[i] = clip(line, width)
	}
	return picture[:min(len(picture), height)]
}

func (a *app) stationRow(s stationsim.Status) []string {
	link, latest := "down", "-"
	if s.Connected {
		link = "up"
	}
	if s.Last.Kind != "" {
		latest = s.Last.Time.In(a.zone).Format(time.TimeOnly) + " " + eventText(s.Last)
	}
	return []string{
		s.ID.String(), s.Name, link, fmt.Sprintf("%.2f V", s.BatteryVoltage),
		statusWords(s.Locks), fmt.Sprint(s.Opened), latest,
	}
}

// statusWords returns the statuses of a station's locks, "all locked" where they are the
// same.
func statusWords(locks []site.LockStatus) string {
	if len(locks) > 1 && len(slices.Compact(slices.Clone(locks))) == 1 {
		return "all " + string(locks[0])
	}
	parts := make([]site.Lock, len(locks))
	for i, l := range locks {
		parts[i] = site.Lock{ID: site.LockID(i + 1), Status: l}
	}
	return lockList(parts)
}

// clip cuts a line to width characters.
func clip(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}
