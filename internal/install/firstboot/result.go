package firstboot

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
)

const (
	// addressPatience is how long the result waits for this board to have a network
	// address: that is what its reader looks for.
	addressPatience = 20 * time.Second
	// stampLayout is how people read a time.
	stampLayout = "2006-01-02 15:04:05 MST"
	// issuedTitle begins the generated passwords, leftTitle what was not wiped.
	issuedTitle = "PASSWORDS THAT WERE MADE"
	leftTitle   = "PASSWORDS ARE LEFT ON THIS CARD"
	// What they are called.
	namePassword = "password"
	nameSecret   = "MQTT password"
	nameToken    = "station token"
)

// paper is the text of a result file.
type paper struct{ strings.Builder }

// line writes one line.
func (p *paper) line(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	_, _ = p.WriteString(text + "\n") // never fails (strings.Builder)
}

// field writes a name and a value, if there is one.
func (p *paper) field(name, value string) {
	if value != "" {
		p.line("  %-12s %s", name, value)
	}
}

// list writes sentences under a title, if there are any.
func (p *paper) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	p.line("")
	p.line("%s", title)
	for _, item := range items {
		p.line("  - %s", item)
	}
}

// writeSuccess writes the result of a first boot that was done, but for the wiping.
func (b *boot) writeSuccess(ctx context.Context) error {
	b.awaitAddresses(ctx)
	b.noteName()
	b.noteLeft()
	b.out.Addresses = append(b.out.Addresses, b.urls()...)
	text := b.successText(b.issued).String()
	if err := b.writeResult(text); err != nil || !strings.Contains(text, issuedTitle) || !b.public(parentOf(b.path)) {
		return err
	}
	_ = b.writeResultTo(b.resultPath(), b.successText(b.issuedAside).String()) // else all of it is beside the configuration
	return nil
}

// successText is the text of a first boot that was done; secrets adds what was generated.
func (b *boot) successText(secrets func(*paper)) *paper {
	p := &paper{}
	b.head(p, "OK")
	p.line("The gateway is set up and runs. The site file is called %s", doneName)
	p.line("once its passwords have been wiped from it; you may delete it then.")
	b.reachable(p)
	b.contents(p)
	if len(b.state.Generated) > 0 {
		secrets(p)
	}
	p.list("TO NOTE", b.out.Warnings)
	return p
}

// failure is the text of a first boot that was not done.
func (b *boot) failure(problems []tomlfile.Problem) *paper {
	p := &paper{}
	b.head(p, "FAILED")
	if len(b.out.Changes) == 0 && b.out.SettingsFile == "" {
		p.line("Nothing was changed.")
	} else {
		p.line("Part of it was done. When it is started again, it goes on from there.")
	}
	p.line("")
	p.line("WHAT IS WRONG")
	for _, problem := range problems {
		if problem.File == b.path {
			problem.File = filepath.Base(b.path)
		}
		p.line("  %s", problem)
	}
	p.line("")
	p.line("WHAT TO DO")
	p.line("  Correct it: in %s on this card, with a text editor, saved as", filepath.Base(b.path))
	p.line("  UTF-8. The number after the name of a file is that of the line. Then")
	if b.TakesName { // as on the image, which has no shell
		p.line("  put the card back and switch the gateway on again.")
	} else {
		p.line("  run: sudo systemctl restart gatehouse-site")
	}
	p.list("TO NOTE", b.out.Warnings)
	return p
}

func (b *boot) head(p *paper, verdict string) {
	p.line("Gatehouse: %s", verdict)
	p.line("")
	when := b.status.Clock.Now.Time
	trusted := b.status.Clock.Trusted
	if when.IsZero() {
		when, trusted = b.Now(), true
	}
	stamp := when.UTC().Format(stampLayout)
	if !trusted {
		stamp += " (the board was not yet sure of its clock)"
	}
	p.field("Time", stamp)
	p.field("Gateway", b.status.Name)
	p.field("Id", string(b.status.GatewayID))
	p.field("Version", cmp.Or(b.status.Version, b.Version))
	p.field("Site file", b.path)
	p.line("")
}

func (b *boot) reachable(p *paper) {
	if len(b.out.Addresses) > 0 {
		p.line("")
		p.line("WHERE IT IS")
	}
	for _, address := range b.out.Addresses {
		p.line("  %s", address)
	}
	if c := b.status.Certificate; c != nil && c.AuthorityFingerprint != "" {
		p.line("")
		p.line("The fingerprint (SHA-256) of the authority that signs its certificate:")
		p.line("  %s", c.AuthorityFingerprint)
	}
}

// contents lists what the site file has set up. It goes by the file and not by what
// was changed just now: after a power cut that would be half of it.
func (b *boot) contents(p *paper) {
	p.line("")
	p.line("WHAT WAS SET UP")
	before, s := p.Len(), b.plan.site
	p.field("Time zone", s.TimeZone)
	for _, a := range s.Accounts {
		role := ""
		if a.Admin != nil && *a.Admin {
			role = ", an administrator"
		}
		p.field("Account", string(a.Email)+role)
	}
	for _, st := range s.Stations {
		p.field("Station", stationText(st))
	}
	for _, g := range s.Grants {
		ids := make([]string, len(g.Stations))
		for i, id := range g.Stations {
			ids[i] = id.String()
		}
		text := fmt.Sprintf("%s: %s%s", g.Account, strings.Join(ids, ", "), sitefile.TermsText(g.Terms()))
		if !g.Until.IsZero() && g.Until.Before(b.Now()) {
			text += " (over)"
		}
		p.field("Grant", text)
	}
	if len(b.plan.keys) > 0 {
		p.field("Settings", strings.Join(b.plan.keys, ", "))
		p.field("", "in "+b.settingsPath())
	}
	if p.Len() == before {
		p.line("  Nothing: the site file is empty.")
	}
}

func stationText(s sitefile.Station) string {
	text := s.ID.String()
	if name := stationName(s); name != "" {
		text += fmt.Sprintf(" %q", name)
	}
	switch {
	case s.Locks == 1:
		text += ", 1 lock"
	case s.Locks > 1:
		text += fmt.Sprintf(", %d locks", s.Locks)
	}
	return text
}

// issued lists the secrets that were generated, and those only.
func (b *boot) issued(p *paper) {
	p.line("")
	p.line(issuedTitle + ", because the site file gave none. They are not")
	p.line("stored anywhere else: write them down now, and delete this file.")
	for _, a := range b.plan.site.Accounts {
		if password := b.state.Generated[passwordOf(a.Email)]; password != "" {
			p.line("")
			p.line("  Account %s", a.Email)
			p.line("    %-14s %s", namePassword, password)
		}
	}
	for _, s := range b.plan.site.Stations {
		secret, token := b.state.Generated[secretOf(s.ID)], b.state.Generated[tokenOf(s.ID)]
		if secret+token == "" {
			continue
		}
		p.line("")
		p.line("  Station %s", stationText(s))
		if secret != "" {
			p.line("    MQTT user name station-%s", s.ID)
			p.line("    %-14s %s", nameSecret, secret)
		}
		if token != "" {
			p.line("    %-14s %s", nameToken, token)
		}
	}
}

// issuedAside names the file with the generated secrets.
func (b *boot) issuedAside(p *paper) {
	p.line("")
	p.line("THE PASSWORDS THAT WERE GENERATED are not on this card, which every user of")
	p.line("this board can read. As root, read them, write them down and delete the file:")
	p.line("  %s", b.asidePath())
}
