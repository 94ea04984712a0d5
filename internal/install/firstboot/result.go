package firstboot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

const (
	// addressPatience is how long the result waits for this board to have a network
	// address: that is what its reader looks for.
	addressPatience = 20 * time.Second
	// stampLayout is how people read a time.
	stampLayout = "2006-01-02 15:04:05 MST"
	// issuedTitle begins the generated passwords, the last part of a result.
	issuedTitle = "PASSWORDS THAT WERE MADE"
	issuedLine  = "    %-14s %s"
)

// whatToDo ends the result of a failed first boot.
const whatToDo = `WHAT TO DO
  Correct it: in %s on this card, with a text editor, saved as
  UTF-8. The number after the name of a file is that of the line. Then
`

// section returns a title with its lines, "" where there are none. Each part of a result
// ends with a newline.
func section[T any](title, format string, lines []T) string {
	var text strings.Builder
	for _, line := range lines {
		_, _ = fmt.Fprintf(&text, format, line) // never fails (strings.Builder)
	}
	if text.Len() == 0 {
		return ""
	}
	return title + text.String()
}

// fields returns a title with a line for each pair of a name and a text, without the pairs
// that have no text; "" where none has one.
func fields(title, format string, pairs ...[2]string) string {
	var lines []string
	for _, p := range pairs {
		if p[1] != "" {
			lines = append(lines, fmt.Sprintf(format, p[0], p[1]))
		}
	}
	return section(title, "%s\n", lines)
}

// head returns the first part of every result after its verdict.
func (b *boot) head() string {
	when, trusted := b.status.Clock.Now.Time, b.status.Clock.Trusted
	if when.IsZero() {
		when, trusted = b.Now(), true
	}
	stamp := when.UTC().Format(stampLayout)
	if !trusted {
		stamp += " (the board was not yet sure of its clock)"
	}
	return fields("", "  %-12s %s", [2]string{"Time", stamp}, [2]string{"Gateway", b.status.Name}, [2]string{"Id", string(b.status.GatewayID)},
		[2]string{"Version", cmp.Or(b.status.Version, b.Version)}, [2]string{"Site file", b.path})
}

// writeFailure writes what is wrong. A result that cannot be written is no second
// error: the log has the first.
func (b *boot) writeFailure(err error) {
	problems := slices.Clone(problemsOf(err))
	for i := range problems {
		if problems[i].File == b.path {
			problems[i].File = filepath.Base(b.path)
		}
	}
	changed, next := "Nothing was changed.\n", "  run: sudo systemctl restart gatehouse-site\n"
	if len(b.out.Changes) > 0 || b.out.SettingsFile != "" {
		changed = "Part of it was done. When it is started again, it goes on from there.\n"
	}
	if b.TakesName { // as on the image, which has no shell
		next = "  put the card back and switch the gateway on again.\n"
	}
	_ = b.writeResult("", "Gatehouse: FAILED\n", b.head(), changed, section("WHAT IS WRONG\n", "  %s\n", problems),
		fmt.Sprintf(whatToDo, filepath.Base(b.path))+next, section("TO NOTE\n", "  - %s\n", b.out.Warnings))
}

// writeSuccess writes the result of a first boot that was done, but for the wiping.
func (b *boot) writeSuccess(ctx context.Context) error {
	addressed := func(s adminapi.Status) error {
		if len(s.Addresses) == 0 {
			return errors.New("no network address")
		}
		return nil
	}
	if b.poll(ctx, addressPatience, time.Second, addressed) != nil {
		b.warn("This board has no network address yet: look for it in your router, or on the text console.")
	}
	for _, c := range b.status.Conditions {
		if c.Severity != health.Notice {
			b.warn("%s: %s", c.Summary, c.Advice)
		}
	}
	for _, path := range b.plan.site.PasswordFiles {
		if filepath.Dir(path) == filepath.Dir(b.path) && !b.removes(path) {
			b.warn("The password in %s is not wiped: only files beside the site file that are called *.password or *.secret are removed.", path)
		}
	}
	network := b.Network()
	if b.TakesName && b.status.Name != "" {
		network = b.status.Name
	}
	b.out.Addresses = append(b.out.Addresses, adminapi.URLs(b.status.Listeners, b.status.Addresses, network)...)
	slices.Sort(b.out.Addresses)
	b.out.Addresses = slices.Compact(b.out.Addresses)
	fingerprint := ""
	if c := b.status.Certificate; c != nil && c.AuthorityFingerprint != "" {
		fingerprint = "The fingerprint (SHA-256) of the authority that signs its certificate:\n  " + c.AuthorityFingerprint + "\n"
	}
	return b.writeResult(b.issued(), "Gatehouse: OK\n", b.head(),
		"The gateway is set up and runs. The site file is called "+doneName+"\nonce its passwords have been wiped from it; you may delete it then. If\n"+filepath.Base(b.path)+" is still there after a minute, delete it: its passwords are in it.\n",
		section("WHERE IT IS\n", "  %s\n", b.out.Addresses), fingerprint,
		"WHAT WAS SET UP\n"+cmp.Or(fields("", "  %-12s %s", b.contents()...), "  Nothing: the site file is empty.\n"),
		section("TO NOTE\n", "  - %s\n", b.out.Warnings))
}

// contents lists what the site file has set up. It goes by the file and not by what
// was changed just now: after a power cut that would be half of it.
func (b *boot) contents() (all [][2]string) {
	s := b.plan.site
	all = append(all, [2]string{"Time zone", s.TimeZone})
	for _, a := range s.Accounts {
		text := string(a.Email)
		if a.Admin != nil && *a.Admin {
			text += ", an administrator"
		}
		all = append(all, [2]string{"Account", text})
	}
	for _, st := range s.Stations {
		all = append(all, [2]string{"Station", stationText(st)})
	}
	for _, g := range s.Groups {
		all = append(all, [2]string{"Group", string(g.Name) + ": " + site.JoinRefs(g.Refs())})
	}
	for _, h := range s.Holidays {
		all = append(all, [2]string{"Holiday", h.Name + ": " + h.Text()})
	}
	for _, g := range s.Grants {
		text := fmt.Sprintf("%s: %s%s", g.Account, site.JoinRefs(g.Stations), g.TermsText())
		if !g.Until.IsZero() && g.Until.Before(b.Now()) {
			text += " (over)"
		}
		all = append(all, [2]string{"Grant", text})
	}
	if len(b.plan.keys) > 0 {
		all = append(all, [2]string{"Settings", strings.Join(b.plan.keys, ", ")}, [2]string{"", "in " + b.settingsPath()})
	}
	return all
}

func stationText(s sitefile.Station) string {
	text := s.ID.String()
	if s.Name != nil {
		if name, _ := site.CleanStationName(*s.Name); name != "" {
			text += fmt.Sprintf(" %q", name)
		}
	}
	switch {
	case s.Locks == 1:
		text += ", 1 lock"
	case s.Locks > 1:
		text += fmt.Sprintf(", %d locks", s.Locks)
	}
	return text
}

// issued lists the secrets that were generated, and those only; "" is none.
func (b *boot) issued() string {
	made, texts := b.state.Generated, []string(nil)
	for _, a := range b.plan.site.Accounts {
		texts = append(texts, fields("\n  Account "+string(a.Email)+"\n", issuedLine, [2]string{"password", made[passwordOf(a.Email)]}))
	}
	for _, s := range b.plan.site.Stations {
		secret, user := made[secretOf(s.ID)], ""
		if secret != "" {
			user = "station-" + s.ID.String()
		}
		texts = append(texts, fields("\n  Station "+stationText(s)+"\n", issuedLine,
			[2]string{"MQTT user name", user}, [2]string{"MQTT password", secret}, [2]string{"station token", made[tokenOf(s.ID)]}))
	}
	return section(issuedTitle+", because the site file gave none. They are not\nstored anywhere else: write them down now, and delete this file.\n", "%s", texts)
}
