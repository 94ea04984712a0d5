package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
)

// port is an address on which the gateway should listen.
type port struct {
	key    string         // of the configuration
	text   string         // as it stands there
	at     netip.AddrPort // the address is invalid where a name stands there
	listed bool           // whether the gateway says that it listens there
}

// privileged is the first port that everybody may open.
const privileged = 1024

// initProcess is the process of systemd, which holds sockets for others.
const initProcess = 1

// checkPorts sees whether each address that is configured is the gateway's.
func checkPorts(ctx context.Context, p *patient, s *sheet) {
	wanted := wantedPorts(p)
	if mayNot(p.silent) {
		s.skip("this user may not ask the gateway which ports are its own", asRoot)
		return
	}
	if p.broken != nil && !p.runs() {
		s.skip("the configuration, which names the ports, cannot be used", "")
		return
	}
	open, err := p.Machine.Sockets()
	if err != nil {
		s.denied("which ports are open", err)
		return
	}
	holders := p.Machine.Holders()
	var fine []string
	for _, w := range wanted {
		if checkPort(ctx, p, s, w, open, holders) {
			fine = append(fine, w.text)
		}
	}
	if len(s.findings) == 0 { // else they are the reason
		checkSocketUnit(p, s, wanted)
	}
	if p.runs() {
		s.fine(fmt.Sprintf("All %d are open and answer", len(wanted)), fine...)
	}
	s.fine("Nobody else uses them", fine...)
}

// wantedPorts are what is configured, and what the gateway says that it has.
func wantedPorts(p *patient) []port {
	var all []port
	if p.broken == nil {
		all = configuredPorts(p.settings)
	}
	for _, l := range p.status.Listeners {
		w := parsePort(l.Name, l.Address)
		w.listed = true
		at := slices.IndexFunc(all, func(other port) bool { return other.same(w.at) })
		if at < 0 {
			all = append(all, w)
		} else {
			all[at].listed = true
		}
	}
	return all
}

func configuredPorts(settings config.Config) []port {
	var all []port
	for _, group := range []struct {
		key       string
		addresses []string
	}{
		{"http.listen", settings.HTTP.Listen},
		{"http.tls_listen", settings.HTTP.TLSListen},
		{"mqtt.listen", settings.MQTT.Listen},
		{"mqtt.tls_listen", settings.MQTT.TLSListen},
	} {
		for _, text := range group.addresses {
			if w := parsePort(group.key, text); w.at.Port() != 0 {
				all = append(all, w)
			}
		}
	}
	return all
}

func parsePort(key, text string) port {
	host, digits, _ := net.SplitHostPort(text)
	number, _ := strconv.ParseUint(digits, 10, 16)
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if host == "" || err == nil && addr.IsUnspecified() {
		addr = netip.IPv6Unspecified() // all ways to write "every address" are one
	}
	return port{key: key, text: text, at: netip.AddrPortFrom(addr, uint16(number))}
}

// same reports whether a socket is the one of the port, or takes its place.
func (w port) same(socket netip.AddrPort) bool {
	if socket.Port() != w.at.Port() {
		return false
	}
	ours, theirs := w.at.Addr(), socket.Addr()
	return !ours.IsValid() || ours == theirs || ours.IsUnspecified() && theirs.IsUnspecified()
}

// clashes reports whether a socket keeps the port from being opened.
func (w port) clashes(socket netip.AddrPort) bool {
	return w.same(socket) || socket.Port() == w.at.Port() && (w.at.Addr().IsUnspecified() || socket.Addr().IsUnspecified())
}

// checkPort looks at one port, and reports whether it is as it should be.
func checkPort(ctx context.Context, p *patient, s *sheet, w port, open []machine.Socket, holders map[string][]machine.Process) bool {
	at := slices.IndexFunc(open, func(o machine.Socket) bool { return w.same(o.Address) })
	if !p.runs() && at < 0 {
		at = slices.IndexFunc(open, func(o machine.Socket) bool { return w.clashes(o.Address) })
	}
	if at < 0 {
		switch {
		case w.listed:
			s.fatal("The gateway no longer listens on "+w.text, p.told("restart"), "no program has it open")
		case p.runs():
			s.warn("The gateway does not listen on "+w.text, p.told("restart"), w.key+" names it, and no program has it open")
		}
		return !p.runs()
	}
	who := holders[open[at].Inode]
	if stranger := p.stranger(who); stranger != "" {
		s.fatal("Another program has the port of "+w.text+" open",
			fmt.Sprintf("stop that program, or change %s; then %s", w.key, p.told("restart gatehouse.socket")), open[at].Address.String()+" is open in "+stranger)
		return false
	}
	if !p.runs() {
		return true
	}
	if err := p.Machine.Connect(ctx, w.local()); err != nil {
		s.warn("The gateway cannot be reached on "+w.text+", even from this machine", "check the firewall: nft list ruleset", err.Error())
		return false
	}
	return true
}

// stranger names the programs that have a socket open, if the gateway and systemd are
// not among them. Of a socket that nobody is seen to hold it depends on whether the
// gateway says that it is its own.
func (p *patient) stranger(who []machine.Process) string {
	var names []string
	for _, one := range who {
		if one.ID == p.process || one.ID == initProcess {
			return ""
		}
		names = append(names, fmt.Sprintf("%s (process %d)", cmp.Or(one.Name, "a program"), one.ID))
	}
	switch {
	case len(names) > 0 && p.process == 0 && p.runs():
		return "" // whose process the gateway is cannot be seen
	case len(names) > 0:
		return strings.Join(names, ", ")
	case p.runs(), p.sockets["ActiveState"] == "active":
		return ""
	default:
		return "a program that only root sees (" + asRoot + ")"
	}
}

// local gives the address under which this machine reaches the port.
func (w port) local() string {
	host := w.at.Addr().String()
	switch {
	case !w.at.Addr().IsValid():
		host = "localhost"
	case w.at.Addr().IsUnspecified():
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(w.at.Port())))
}

// checkSocketUnit sees that systemd holds the ports for which the gateway lacks the
// right. A gateway that is stopped takes its sockets along when it starts.
func checkSocketUnit(p *patient, s *sheet, wanted []port) {
	state := p.sockets["ActiveState"]
	if !p.installed() || p.alien || state == "active" || state == "inactive" && !p.runs() {
		return
	}
	evidence := fmt.Sprintf("%s is %s, %s", socketName, cmp.Or(state, "not there"), cmp.Or(p.sockets["UnitFileState"], "not installed"))
	if result := p.sockets["Result"]; result != "success" {
		evidence += "; its last end was " + result
	}
	const mend = "systemctl stop gatehouse; systemctl enable --now gatehouse.socket gatehouse"
	if slices.ContainsFunc(wanted, func(w port) bool { return w.at.Port() < privileged && !w.listed }) {
		s.fatal("systemd does not hold the ports below 1024, which the gateway may not open itself", mend, evidence)
		return
	}
	s.notice("systemd does not hold the ports: connections are refused while the gateway restarts", mend, evidence)
}
