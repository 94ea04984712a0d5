package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/web/adminapi"
)

// redirectPort is the one of gatehouse-redirect.socket.
const redirectPort = 80

// port is an address on which the gateway should listen.
type port struct {
	key  string         // of the configuration
	text string         // its value there
	at   netip.AddrPort // the address is invalid where the value is a name
}

// checkPorts compares the configured addresses with those of a running gateway. If none
// runs, it looks for other programs that hold them.
func checkPorts(ctx context.Context, g *subject, s *sheet) {
	switch {
	case mayNot(g.silent):
		s.skip("this user may not ask the gateway which ports it has", asRoot)
		return
	case g.broken != nil:
		s.skip("the configuration, which names the ports, cannot be used", "")
		return
	}
	wanted := configuredPorts(g.settings)
	checkRedirect(ctx, g, s)
	if g.runs() {
		checkListeners(g, s, wanted)
		s.fine(fmt.Sprintf("All %d are open", len(g.status.Listeners)))
		return
	}
	open, err := g.Machine.Sockets(ctx)
	if err != nil {
		s.unread("which ports are open", err)
		return
	}
	for _, w := range wanted {
		at := slices.IndexFunc(open, func(o machine.Socket) bool { return w.clashes(o.Address) })
		if at < 0 {
			continue
		}
		if stranger := g.stranger(open[at]); stranger != "" {
			s.fatal("Another program has the port of "+w.text+" open",
				fmt.Sprintf("stop that program, or change %s; then %s", w.key, g.command("restart gatehouse.socket")), open[at].Address.String()+" is open in "+stranger)
		}
	}
	s.fine("No other program uses them")
}

// checkListeners reports configured addresses on which the running gateway does not
// listen.
func checkListeners(g *subject, s *sheet, wanted []port) {
	fix := g.command("restart")
	if g.installed() && g.sockets["ActiveState"] != "active" {
		fix = "systemctl stop gatehouse; systemctl enable --now gatehouse.socket gatehouse"
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(g.status.Listeners, func(l adminapi.Listener) bool { return w.same(parsePort("", l.Address).at) }) {
			s.warn("The gateway does not listen on "+w.text, fix, w.key+" names it")
		}
	}
}

// checkRedirect reports another program on port 80, which apps are sent to for ca.crt.
func checkRedirect(ctx context.Context, g *subject, s *sheet) {
	if g.redirect["ActiveState"] != "failed" {
		return
	}
	evidence := []string{redirectName + " has failed (" + g.redirect["Result"] + ")"}
	open, _ := g.Machine.Sockets(ctx) // without it the holder stays unknown
	for _, o := range open {
		if o.Address.Port() == redirectPort {
			evidence = append(evidence, listed("port 80 is open in", o.Holders))
		}
	}
	s.notice("Another program has port 80: http://ADDRESS/ca.crt and the redirection to HTTPS do not work",
		"stop that program, then systemctl stop gatehouse.socket gatehouse; systemctl start gatehouse.socket gatehouse", evidence...)
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

// same reports whether a listener is the one of the port, or serves its address too.
func (w port) same(listener netip.AddrPort) bool {
	theirs := listener.Addr()
	return listener.Port() == w.at.Port() && (!w.at.Addr().IsValid() || w.at.Addr() == theirs || theirs.IsUnspecified())
}

// clashes reports whether a socket keeps the port from being opened.
func (w port) clashes(socket netip.AddrPort) bool {
	return w.same(socket) || socket.Port() == w.at.Port() && w.at.Addr().IsUnspecified()
}

// stranger names the programs that have a socket open; "" if it is systemd, which holds
// the sockets of the gateway.
func (g *subject) stranger(s machine.Socket) string {
	switch {
	case g.sockets["ActiveState"] == "active" || slices.Contains(s.Holders, "systemd (process 1)"):
		return ""
	case len(s.Holders) == 0:
		return "a program that only root sees (" + asRoot + ")"
	default:
		return strings.Join(s.Holders, ", ")
	}
}
