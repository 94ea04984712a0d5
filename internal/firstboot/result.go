package firstboot

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatehouse/internal/sitefile"
)

const (
	// addressPatience is how long the result waits for the network to give this board
	// an address: that is what whoever reads it looks for.
	addressPatience = 20 * time.Second
	// stampLayout is how people read a time.
	stampLayout = "2006-01-02 15:04:05 MST"
)

// paper is the text of a result file.
type paper struct{ strings.Builder }

// line writes one line, with the end that every editor of Windows knows.
func (p *paper) line(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	_, _ = p.WriteString(text + "\r\n") // never fails (strings.Builder)
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

// tell writes the result of a first boot that was done, but for the wiping.
func (b *boot) tell(ctx context.Context) error {
	b.awaitAddresses(ctx)
	b.out.Addresses = append(b.out.Addresses, b.urls()...)
	b.told = b.success().String()
	return b.writeResult(b.told)
}

// tellFailure writes what is wrong. A result that cannot be written is no second
// error: the log has the first.
func (b *boot) tellFailure(err error) {
	_ = b.writeResult(b.failure(problemsOf(err)).String())
}

// tellUnwiped adds to the result that secrets are left in the site file.
func (b *boot) tellUnwiped(err error) {
	p := &paper{}
	_, _ = p.WriteString(b.told)
	var texts []string
	for _, problem := range problemsOf(err) {
		texts = append(texts, problem.String())
	}
	p.list("PASSWORDS ARE LEFT ON THIS CARD", texts)
	_ = b.writeResult(p.String()) // as in tellFailure
}

// writeResult writes beside the site file, or beside the configuration where that
// cannot be.
func (b *boot) writeResult(text string) error {
	err := b.disk.Write(b.resultPath(), []byte(text), 0o600, ownGroup)
	if err == nil {
		b.out.Result = b.resultPath()
		return nil
	}
	other := filepath.Join(b.folder, resultName)
	if other == b.resultPath() || b.disk.Write(other, []byte(text), 0o600, ownGroup) != nil {
		return refuse(b.resultPath(), "the result cannot be written: %s", cause(err))
	}
	b.out.Result = other
	return nil
}

// success is the text of a first boot that was done.
func (b *boot) success() *paper {
	p := &paper{}
	b.head(p, "OK")
	p.line("The gateway is set up and runs. The site file is called %s", doneName)
	p.line("once its passwords have been wiped from it; you may delete it then.")
	b.reachable(p)
	b.contents(p)
	b.issued(p)
	p.list("TO NOTE", b.out.Warnings)
	return p
}

// failure is the text of a first boot that was not done.
func (b *boot) failure(problems []Problem) *paper {
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
		file := problem.File
		if file == b.path {
			file = filepath.Base(file)
		}
		p.line("  %s", problem.under(file))
	}
	p.line("")
	p.line("WHAT TO DO")
	p.line("  Put it right (in %s on this card: with a text editor, saved as", filepath.Base(b.path))
	p.line("  UTF-8), put the card back and switch the gateway on again. The number behind")
	p.line("  the name of a file is that of the line.")
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
	before, s := p.Len(), b.site()
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
		p.field("Grant", fmt.Sprintf("%s: %s", g.Account, strings.Join(ids, ", ")))
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
	if len(b.state.Accounts)+len(b.state.Stations) == 0 {
		return
	}
	p.line("")
	p.line("PASSWORDS THAT WERE MADE, because the site file gave none. They stand nowhere")
	p.line("else: write them down now, and delete this file.")
	for _, a := range b.site().Accounts {
		if password, made := b.state.Accounts[a.Email]; made {
			p.line("")
			p.line("  Account %s", a.Email)
			p.line("    password       %s", string(password))
		}
	}
	for _, s := range b.site().Stations {
		made, is := b.state.Stations[s.ID]
		if !is {
			continue
		}
		p.line("")
		p.line("  Station %s", stationText(s))
		if made.Secret != "" {
			p.line("    MQTT user name station-%s", s.ID)
			p.line("    MQTT password  %s", string(made.Secret))
		}
		if made.Token != "" {
			p.line("    station token  %s", string(made.Token))
		}
	}
}

// urls gives where the gateway can be reached from the network: with TLS if it has
// any such address.
func (b *boot) urls() (all []string) {
	for _, scheme := range []string{"https", "http"} {
		for _, l := range b.status.Listeners {
			if l.Name == scheme {
				all = append(all, b.urlsOf(scheme, l.Address)...)
			}
		}
		if len(all) > 0 {
			break
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// urlsOf gives the URLs of one listener; none where only this board can reach it.
func (b *boot) urlsOf(scheme, address string) (all []string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	add := func(host string) {
		if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
			all = append(all, scheme+"://"+bracketed(host))
			return
		}
		all = append(all, scheme+"://"+net.JoinHostPort(host, port))
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil || !ip.IsLoopback() && !ip.IsUnspecified():
		add(host)
	case ip.IsUnspecified():
		add(b.status.Name + ".local")
		for _, a := range b.status.Addresses {
			add(a.String())
		}
	}
	return all
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// awaitAddresses asks the gateway how it stands until the network has given the board
// an address, for a moment.
func (b *boot) awaitAddresses(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, min(addressPatience, b.Patience))
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if status, err := b.gateway.Status(ctx); err == nil {
			b.status = status
		}
		if len(b.status.Addresses) > 0 {
			return
		}
		select {
		case <-limited.Done():
			b.warn("The network gave this board no address yet: look for it in your router, or on the text console.")
			return
		case <-ticker.C:
		}
	}
}
