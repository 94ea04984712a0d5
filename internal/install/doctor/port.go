package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"gatehouse/internal/config"
	"gatehouse/internal/web/adminapi"
)

// port is an address on which the gateway should listen.
type port struct {
	key     string // of the configuration
	address string // its value there
}

// checkPorts compares the configured ports with those of a running gateway. If none runs,
// it looks for other programs that hold them.
func checkPorts(ctx context.Context, g *subject, s *sheet) {
	switch {
	case mayNot(g.silent):
		s.skip("this user may not ask the gateway which ports it has", asRoot)
		return
	case g.broken != nil:
		s.skip("the configuration, which names the ports, cannot be used", "")
		return
	case g.redirect["ActiveState"] == "failed": // apps are sent there for ca.crt
		s.notice("Another program has port 80: http://ADDRESS/ca.crt and the redirection to HTTPS do not work",
			"stop that program (ss -ltnp names it), then systemctl stop gatehouse.socket gatehouse; systemctl start gatehouse.socket gatehouse", redirectName+" has failed")
	}
	if g.runs() {
		checkListeners(g, s)
		s.fine(fmt.Sprintf("All %d are open", len(g.status.Listeners)))
		return
	}
	if g.sockets["ActiveState"] == "active" { // systemd holds them for the gateway
		s.fine("systemd has them open")
		return
	}
	open, err := g.Machine.Sockets(ctx)
	if err != nil {
		s.unread("which ports are open", err)
		return
	}
	for _, w := range configuredPorts(g.settings) {
		if holder, taken := open[number(w.address)]; taken {
			s.fatal("Another program has the port of "+w.address+" open",
				fmt.Sprintf("stop that program, or change %s; then %s", w.key, g.command("restart gatehouse.socket")), holder)
		}
	}
	s.fine("No other program uses them")
}

// checkListeners reports configured ports on which the running gateway does not listen.
func checkListeners(g *subject, s *sheet) {
	fix := g.command("restart")
	if g.installed() && g.sockets["ActiveState"] != "active" {
		fix = "systemctl stop gatehouse; systemctl enable --now gatehouse.socket gatehouse"
	}
	for _, w := range configuredPorts(g.settings) {
		if !slices.ContainsFunc(g.status.Listeners, func(l adminapi.Listener) bool { return number(l.Address) == number(w.address) }) {
			s.warn("The gateway does not listen on "+w.address, fix, w.key+" names it")
		}
	}
}

// configuredPorts returns the addresses of the configuration without those of port 0,
// for which the system picks one.
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
		for _, address := range group.addresses {
			if !strings.HasSuffix(address, ":0") {
				all = append(all, port{group.key, address})
			}
		}
	}
	return all
}

// number returns the port of an address.
func number(address string) string {
	_, digits, _ := net.SplitHostPort(address)
	return digits
}
